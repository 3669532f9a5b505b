import { freePrice } from "../store/recordedRequest.ts";
import { array, asyncProperty, integer, type IAsyncProperty } from "fast-check";
import type { Hold, HoldResult } from "../../../src/billing/hold.ts";
import { Holds } from "../../../src/billing/holds.ts";
import { amountRangeOf, boundWithin, type AmountRange } from "../../../src/billing/cost.ts";
import type { AccountEffect, GroupEffect } from "../../../src/store/store.ts";
import { HoldsDatabase, type BatchFate } from "./holdsDatabase.ts";
import { MoneyModel, same, type ModelDecision, type ModelDemand } from "./moneyModel.ts";

/** What a request asks for, in the words of memory and of the model. */
interface Demand {
  readonly id: string;
  readonly key: HistoryKey;
  readonly range: AmountRange;
  readonly model: ModelDemand;
}

/** A request that holds its money. */
interface OpenRequest {
  readonly id: string;
  readonly key: HistoryKey;
  readonly holds: Hold[];
  /** `ending`: its end is queued or in flight. `extending`: it waits for more money. */
  state: "running" | "extending" | "ending";
  charge: bigint;
}

/** A request that waits for an answer; `told` once it has it. Aborted when its client disconnects. */
interface WaitingRequest extends Demand {
  readonly signal: { aborted: boolean };
  readonly isPatient: boolean;
  told?: HoldResult;
}

/** A request that waits for more money than it holds; `told` once it has some, or none. */
interface Extension {
  readonly request: OpenRequest;
  readonly extra: bigint;
  readonly more: Hold;
  told?: boolean;
}

const STEPS_MAX = 200;
/** Each round ends a batch. Requests that waited for money add some. */
const ROUNDS_MAX = 1000;
/** No history takes so long. */
const FOR_EVER_MS = 1_000_000;
const keys = [
  { name: "plain", account: "shared", accountId: 1, keyId: 1 },
  { name: "bounded", account: "shared", accountId: 1, keyId: 2 },
  { name: "alone", account: "other", accountId: 2, keyId: 3 },
] as const;
type HistoryKey = (typeof keys)[number];
const accounts = [
  { name: "shared", id: 1 },
  { name: "other", id: 2 },
] as const;
const inputPrices = ["input", "cachedInput", "cacheWrite", "cacheWrite1h"] as const;
const fates: readonly BatchFate[] = [
  "committed",
  "committed",
  "committed",
  "refused",
  "partly",
  "full",
];
/** Amounts are small, so that they often fit exactly; some histories count them in what a double cannot. */
const scales = [1n, 2n ** 53n + 1n] as const;

/**
 * The holds of a gateway that shares its accounts with no other one, against the model, in any order of what can happen to
 * them: batches that are sent, committed, refused or fail, and commands of other processes between any two steps. No
 * SQLite, no clock. The model has the money as the newest answer told it, and each decision must be the model's.
 */
export function holdsHistory(): IAsyncProperty<[readonly number[]]> {
  const step = integer({ min: 0, max: 0xffff_ffff });
  const steps = array(step, { minLength: 1, maxLength: STEPS_MAX, size: "max" });
  return asyncProperty(steps, async (words) => {
    try {
      await play(words);
    } catch (cause) {
      // Only a failed history is printed, from its beginning.
      const told: string[] = [];
      await expectFailure(() => play(words, (line) => told.push(line)));
      throw new Error(`${String(cause)}\n${told.join("\n")}`, { cause });
    }
  });
}

/** Hears what happens in a history, line by line. */
type Tell = (line: string) => void;

async function play([first = 0, ...others]: readonly number[], tell?: Tell): Promise<void> {
  const history = new HoldsHistory(first, tell);
  try {
    for (const word of others) await history.step(word);
    await history.finish();
  } finally {
    history.close();
  }
}

async function expectFailure(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch {
    return;
  }
  throw new Error("a history failed only once");
}

/** One history: each word says what happens next, and to what. */
class HoldsHistory {
  /** What the gateway knows. */
  readonly #model = new MoneyModel();
  readonly #database: HoldsDatabase;
  readonly #holds: Holds;
  /** In the order of their admission. */
  #open: OpenRequest[] = [];
  /** In the order of their arrival. */
  #waiting: (WaitingRequest | Extension)[] = [];
  /** Their ends are committed, and the gateway does not know it. */
  #unheard: OpenRequest[] = [];
  readonly #tell: Tell | undefined;
  readonly #scale: bigint;
  #requests = 0;

  constructor(word: number, tell?: Tell) {
    this.#tell = tell;
    this.#scale = scales[word % 2] ?? 1n;
    const budget = BigInt((word >>> 1) % 128) * this.#scale;
    this.#database = new HoldsDatabase((word >>> 8) % 2 === 0);
    for (const { id } of accounts)
      this.#database.accounts.set(id, { balance: 0n, overdraft: 0n, reserved: 0n });
    for (const { name, account, accountId, keyId } of keys) {
      const own = name === "plain" ? null : budget;
      this.#model.addKey(name, account, own);
      this.#database.chains.set(keyId, { accountId, budget: own, spent: 0n, reserved: 0n });
    }
    this.#holds = new Holds({
      writer: this.#database.writer,
      clock: { epochMs: () => 0, monotonicMs: () => 0 },
      random: { fraction: () => 0.5 },
      changes: () => this.#database.changes,
      isAlone: true,
      refuse() {},
    });
    tell?.(`budgets of ${budget}`);
  }

  async step(word: number): Promise<void> {
    const kind = word % 32;
    const rest = word >>> 5;
    if (kind < 5) this.#command(kind, rest);
    else if (kind < 14) await this.#ask(rest);
    else if (kind < 15) this.#disconnect(rest);
    else if (kind < 21) await this.#end(rest);
    else if (kind < 22) await this.#release(rest);
    else if (kind < 25) this.#database.send();
    else if (kind < 28) this.#commit(rest);
    else if (kind < 31) await this.#hear();
    else this.#lowerReserves();
    this.#check();
  }

  /** Every request ends, and all that is held or reserved is given back. */
  async finish(): Promise<void> {
    for (let round = 0; this.#isBusy(); round += 1) {
      same(round < ROUNDS_MAX, true, "every request comes to its end");
      for (const request of this.#open.slice())
        if (request.state === "running") this.#askEnd(request, 0n);
      // As requests that wait ask again from time to time.
      if (this.#waiting.length > 0) this.#holds.changed(undefined);
      this.#database.send();
      this.#commit(0);
      await this.#hear();
      this.#check();
    }
    same(this.#holds.total(), 0n, "what is held when all is over");
    this.#lowerReserves();
    this.#database.send();
    this.#commit(0);
    await this.#hear();
    for (const { reserved } of this.#database.accounts.values()) same(reserved, 0n, "the reserve");
    for (const { reserved } of this.#database.chains.values()) same(reserved, 0n, "the block");
  }

  /** Ends the timers. */
  close(): void {
    this.#holds.reset();
  }

  #isBusy(): boolean {
    const { isSent, queued } = this.#database;
    return this.#open.length > 0 || this.#waiting.length > 0 || isSent || queued > 0;
  }

  #check(): void {
    for (const { name, id } of accounts) {
      const { balance, overdraft, reserved } = this.#database.account(id);
      const held = sumOf(this.#open.filter(({ key }) => key.accountId === id));
      same(held <= reserved, true, `${name} has reserved what requests hold`);
      same(reserved <= balance + overdraft, true, `${name} can pay what it has reserved`);
    }
    const held = sumOf([...this.#open, ...this.#unheard]);
    same(this.#holds.total(), held, "the sum of the holds");
  }

  /** Another process changes something. */
  #command(kind: number, word: number): void {
    const { name, id } = accounts[word % 2] ?? accounts[0];
    const key = keys[(word >>> 1) % 3] ?? keys[0];
    const amount = BigInt((word >>> 3) % 64) * this.#scale;
    const database = this.#database;
    const budget = amount === 0n ? null : amount;
    const commands = [
      () => database.credit(id, amount),
      () => database.debit(id, amount),
      () => database.setOverdraft(id, amount),
      () => database.setBudget(key.keyId, budget),
      () => database.refund(key.keyId, amount),
    ];
    const kinds = ["credit", "debit", "overdraft", "budget", "refund"];
    const isDone = commands[kind]?.();
    this.#tell?.(`${kinds[kind]} ${kind < 3 ? name : key.name} ${amount}: ${isDone}`);
  }

  async #ask(word: number): Promise<void> {
    const demand = this.#demandOf(word);
    const { id, key, range } = demand;
    const isPatient = (word >>> 21) % 2 === 0;
    this.#tell?.(`${key.name} ${id} asks for ${range.least} to ${range.most}`);
    const waiting: WaitingRequest = { ...demand, signal: { aborted: false }, isPatient };
    this.#refuseEarly(demand);
    const holdWait = { waitMs: isPatient ? FOR_EVER_MS : 0, signal: waiting.signal };
    const asking = this.#holds.takeOrWait(holdWait, { ...key, requestId: id }, range);
    if (!(asking instanceof Promise)) {
      const { budget } = this.#database.chain(key.keyId);
      same(this.#model.key(key.name).budget, budget, "the budget that a decision at once knows");
      return this.#decided(waiting, asking);
    }
    asking.then(
      (result) => (waiting.told = result),
      // The history is over.
      () => undefined,
    );
    await told();
    same(waiting.told, undefined, "the result of a request that waits for an answer");
    this.#waiting.push(waiting);
  }

  /** A refusal before the request asks is the model's, and the model knows all that commands have changed. */
  #refuseEarly({ key, range, model }: Demand): void {
    const refusal = this.#holds.refusalOf(key, range.least);
    if (refusal === undefined) return;
    const { balance, overdraft } = this.#database.account(key.accountId);
    const { budget } = this.#database.chain(key.keyId);
    const known = this.#model.account(key.account);
    if (this.#unheard.length === 0)
      same(known.balance + known.overdraft, balance + overdraft, "what an early refusal knows");
    same(this.#model.key(key.name).budget, budget, "the budget that an early refusal knows");
    sameRefusal(refusal, this.#model.decide(key.name, model));
  }

  #demandOf(word: number): Demand {
    const key = keys[word % 3] ?? keys[0];
    const least = ((word >>> 2) % 8) + 1;
    const most = least + ((word >>> 5) % 16);
    const choices = ((word >>> 9) % 3) + 1;
    const price = BigInt((word >>> 11) % 4) * this.#scale;
    const promptTokens = (word >>> 13) % 16;
    const webSearches = (word >>> 19) % 3;
    const prices = { ...freePrice, output: price, webSearch: this.#scale };
    prices[inputPrices[(word >>> 17) % 4] ?? "input"] = this.#scale;
    const prompt = BigInt(promptTokens + webSearches) * this.#scale;
    const limits = { promptTokens, asked: ["cacheWrite1hTokens"], most: { webSearches } } as const;
    return {
      id: `req_${this.#requests++}`,
      key,
      range: amountRangeOf(limits, { least, most }, choices, prices),
      model: { prompt, unit: price * BigInt(choices), least, most },
    };
  }

  /** What was decided is what the model decides now. */
  #decided({ id, key, range, model, signal }: WaitingRequest, taken: HoldResult): void {
    if (signal.aborted) return same(taken.ok, false, "whether money is held after a disconnect");
    const expected = this.#model.decide(key.name, model);
    this.#tell?.(`${id} is ${expected.kind}`);
    if (!taken.ok || expected.kind !== "held") return sameRefusal(taken, expected);
    same(taken.hold.amount, expected.hold, "what is held");
    same(taken.hold.secured, undefined, "a hold is secured from its beginning");
    same(boundWithin(range, taken.hold.amount, model), expected.tokens, "the bound");
    this.#model.hold(id, key.name, taken.hold.amount);
    this.#open.push({ id, key, holds: [taken.hold], state: "running", charge: 0n });
  }

  /** A waiting request is aborted; this is noticed at its next decision. */
  #disconnect(word: number): void {
    const waiting = this.#waiting[word % Math.max(1, this.#waiting.length)];
    if (!waiting || "more" in waiting) return;
    this.#tell?.(`${waiting.id} disconnects`);
    waiting.signal.aborted = true;
  }

  /** A request that holds its money ends. It may cost more than it holds. */
  async #end(word: number): Promise<void> {
    const request = this.#runningOne(word);
    if (!request) return;
    const amount = sumOf([request]);
    const costs = [
      0n,
      amount,
      (amount * BigInt((word >>> 4) % 16)) / 16n,
      amount + BigInt((word >>> 4) % 64) * this.#scale,
    ];
    const cost = costs[(word >>> 2) % 4] ?? 0n;
    if (cost > amount && request.holds.length === 1) await this.#extend(request, cost - amount);
    else this.#askEnd(request, cost);
  }

  async #extend(request: OpenRequest, extra: bigint): Promise<void> {
    this.#tell?.(`${request.id} extends by ${extra}`);
    const more = request.holds[0]?.extend(extra);
    if (!more) throw new Error("no lease is lost");
    const extension: Extension = { request, extra, more };
    if (more.secured === undefined) return this.#extended(extension, true);
    request.state = "extending";
    this.#waiting.push(extension);
    more.secured.then(
      () => (extension.told = true),
      () => (extension.told = false),
    );
    await told();
    same(extension.told, undefined, "the result of an extension that waits for an answer");
  }

  #extended({ request, extra, more }: Extension, isHeld: boolean): void {
    const { id, holds } = request;
    request.state = "running";
    const expected = this.#model.extend(id, extra);
    this.#tell?.(`${id} has ${expected} more`);
    same(isHeld ? more.amount : 0n, expected, "what is held more");
    if (isHeld) holds.push(more);
    else more.release();
  }

  #askEnd(request: OpenRequest, cost: bigint): void {
    const { id, key, holds } = request;
    const most = sumOf([request]);
    request.charge = cost < most ? cost : most;
    request.state = "ending";
    this.#tell?.(`end ${id} with a charge of ${request.charge}`);
    const { accountId, keyId: firstKeyId } = key;
    const record = { publicId: id, accountId, firstKeyId, charge: request.charge };
    this.#database.writeWithin({ kind: "recordRequest", record }, holds).catch(() => {
      request.state = "running";
    });
  }

  #commit(word: number): void {
    const fate = fates[word % fates.length] ?? "committed";
    if (!this.#database.isSent || this.#database.isUnheard) return;
    this.#tell?.(`the batch is ${fate}`);
    const ids = new Set(this.#database.end(fate, word >>> 3));
    this.#unheard = this.#open.filter(({ id }) => ids.has(id));
    this.#open = this.#open.filter(({ id }) => !ids.has(id));
  }

  /** The gateway hears how the batch ended. */
  async #hear(): Promise<void> {
    if (!this.#database.isUnheard) return;
    this.#tell?.("the batch is over");
    const { effects, reserveFailure } = this.#database.hear();
    for (const { id } of this.#unheard) this.#forget(id);
    this.#unheard = [];
    for (const effect of effects) this.#learn(effect);
    await this.#decidedAgain();
    if (reserveFailure) return;
    const answered = new Set(effects.flatMap((effect) => effect.accounts.map(idOf)));
    for (const waiting of this.#waiting)
      if (answered.has(keyOf(waiting).accountId)) this.#mayWait(waiting);
  }

  #learn(effect: GroupEffect): void {
    for (const { accountId, balance, overdraft } of effect.accounts) {
      const { name } = accounts.find(({ id }) => id === accountId) ?? accounts[0];
      const amounts = { balance: BigInt(balance), overdraft: BigInt(overdraft) };
      Object.assign(this.#model.account(name), amounts);
    }
    for (const { firstKeyId, budget, spent } of effect.chains) {
      const { name } = keys.find(({ keyId }) => keyId === firstKeyId) ?? keys[0];
      const amounts = { budget: budget === null ? null : BigInt(budget), spent: BigInt(spent) };
      Object.assign(this.#model.key(name), amounts);
    }
  }

  /** A request that is not recorded gives its money back. */
  async #release(word: number): Promise<void> {
    const request = this.#runningOne(word);
    if (!request) return;
    this.#tell?.(`release ${request.id}`);
    this.#open = this.#open.filter((one) => one !== request);
    const [first, ...more] = request.holds;
    // Requests that wait are decided again after each release.
    this.#model.shorten(request.id);
    for (const hold of more) hold.release();
    await this.#decidedAgain();
    this.#model.forget(request.id);
    first?.release();
    await this.#decidedAgain();
  }

  #forget(id: string): void {
    this.#model.forget(id);
    this.#model.shorten(id);
  }

  /** As the sweep does for an account without new holds. */
  #lowerReserves(): void {
    this.#tell?.("lower the reserves");
    this.#holds.close();
  }

  /** Those that wait are told in their order. */
  async #decidedAgain(): Promise<void> {
    await told();
    const waiting = this.#waiting;
    this.#waiting = waiting.filter((one) => one.told === undefined);
    for (const one of waiting) {
      if (one.told === undefined) continue;
      if ("more" in one) this.#extended(one, one.told);
      else this.#decided(one, one.told);
    }
  }

  /**
   * It waits for another answer; or it is busy. Then its key may have nothing left either, which it is told by its next
   * answer.
   */
  #mayWait(waiting: WaitingRequest | Extension): void {
    if (this.#database.queued > 0 || this.#database.isSent) return;
    if ("more" in waiting) throw new Error("an extension waits for no answer");
    const { key, model, isPatient, signal } = waiting;
    same(isPatient && !signal.aborted, true, "whether a request waits after its answer");
    const { balance, overdraft } = this.#model.account(key.account);
    const decision = this.#model.decide(key.name, model);
    const isBusy = decision.kind === "insufficient" && decision.required <= balance + overdraft;
    same(isBusy ? "busy" : decision.kind, "busy", "what a waiting request would be told");
  }

  #runningOne(word: number): OpenRequest | undefined {
    const running = this.#open.filter(({ state }) => state === "running");
    return running[word % Math.max(1, running.length)];
  }
}

const idOf = ({ accountId }: AccountEffect): number => accountId;

function keyOf(waiting: WaitingRequest | Extension): HistoryKey {
  return "more" in waiting ? waiting.request.key : waiting.key;
}

function sumOf(requests: readonly OpenRequest[]): bigint {
  let sum = 0n;
  for (const { holds } of requests) for (const { amount } of holds) sum += amount;
  return sum;
}

function sameRefusal(taken: HoldResult, expected: ModelDecision): void {
  same(taken.ok ? "held" : taken.reason, expected.kind, "the decision");
  const amounts = (one: object) => JSON.stringify(one, ["required", "available"]);
  same(amounts(textual(taken)), amounts(textual(expected)), "what is lacking");
}

/** Resolves when waiting requests have their results, before any timer. */
async function told(): Promise<void> {
  for (let tick = 0; tick < 8; tick += 1) await Promise.resolve();
}

/** Bigints as text, for JSON. */
function textual(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, String(one)]));
}
