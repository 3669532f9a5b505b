import { freePrice } from "../store/recordedRequest.ts";
import { array, asyncProperty, integer, type IAsyncProperty } from "fast-check";
import type { Hold, HoldResult } from "../../../src/billing/hold.ts";
import { LocalHolds } from "../../../src/billing/localHolds.ts";
import { amountRangeOf, boundWithin, type AmountRange } from "../../../src/billing/cost.ts";
import { WriteError } from "../../../src/store/store.ts";
import { HoldsDatabase, type BatchFate } from "./holdsDatabase.ts";
import { MoneyModel, same, type ModelDemand } from "./moneyModel.ts";
import { noUsage } from "../../../src/contract/usage.ts";

/** `ending`: its end is queued or in flight. */
type State = "running" | "ending" | "failed";

interface OpenRequest {
  readonly id: string;
  readonly key: HistoryKey;
  readonly hold: Hold;
  state: State;
  /** Undefined while it is not known whether the reserve covers the hold. */
  isSecured: boolean | undefined;
  /** What the request holds beyond `hold`, with the result of its own reserve. */
  more?: { readonly hold: Hold; isSecured: boolean | undefined };
  /** No command took money from the account since the last hold of the request that was not secured. */
  decreases: number;
  charge: bigint;
}

/** What a request asks for, in the words of memory and of the model. */
interface Demand {
  readonly id: string;
  readonly key: HistoryKey;
  readonly range: AmountRange;
  readonly model: ModelDemand;
}

/** A request that waits for its money; `taken` once it was told. */
interface WaitingRequest extends Demand {
  readonly signal: { aborted: boolean };
  taken?: HoldResult;
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
 * The holds of a gateway against the model, in any order of what can happen to them: batches that are sent, committed,
 * refused or fail, and commands of other processes between any two steps. No SQLite, no clock.
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
  for (const word of others) await history.step(word);
  await history.finish();
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
  readonly #holds: LocalHolds;
  /** In the order of their admission. */
  #open: OpenRequest[] = [];
  /** Requests whose end is committed, while the gateway has not been told. */
  #unheard: OpenRequest[] = [];
  /** Longest first. */
  #waiting: WaitingRequest[] = [];
  /** How often a command took money from an account. */
  readonly #decreases = new Map<number, number>();
  readonly #scale: bigint;
  readonly #tell: Tell | undefined;
  /** What was found while a promise settled. */
  #problem: Error | undefined;
  #requests = 0;

  constructor(word: number, tell?: Tell) {
    this.#tell = tell;
    this.#scale = scales[word % 2] ?? 1n;
    const budget = BigInt((word >>> 1) % 128) * this.#scale;
    this.#database = new HoldsDatabase((word >>> 8) % 2 === 0, (accountId) =>
      this.#learn(accountId),
    );
    for (const { id } of accounts)
      this.#database.accounts.set(id, { balance: 0n, overdraft: 0n, reserved: 0n, seq: 0 });
    for (const { name, account, keyId } of keys) {
      const own = name === "plain" ? null : budget;
      this.#model.addKey(name, account, own);
      this.#database.chains.set(keyId, { budget: own, spent: 0n });
    }
    this.#holds = new LocalHolds({
      store: { funds: this.#database, changes: this.#database },
      writer: this.#database.writer,
      clock: { epochMs: () => 0, monotonicMs: () => 0 },
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
    else if (kind < 21) this.#end(rest);
    else if (kind < 23) await this.#giveUp(rest);
    else if (kind < 25) this.#database.send();
    else if (kind < 28) this.#commit(rest);
    else if (kind < 31) await this.#hear();
    else this.#lowerReserves();
    await told();
    this.#check();
  }

  /** Every request ends, and all that is held or reserved is given back. */
  async finish(): Promise<void> {
    for (let round = 0; this.#isBusy(); round += 1) {
      same(round < ROUNDS_MAX, true, "every request comes to its end");
      for (const request of this.#open.slice()) {
        if (request.state === "failed") await this.#release(request);
        else if (mayEnd(request)) this.#askEnd(request, 0n);
      }
      this.#database.send();
      this.#commit(0);
      await this.#hear();
      await told();
      this.#check();
    }
    same(this.#holds.total(), 0n, "what is held when all is over");
    same(this.#waiting.length, 0, "requests that wait although nothing is held");
    this.#lowerReserves();
    this.#database.send();
    this.#commit(0);
    await this.#hear();
    for (const { id } of accounts)
      same(this.#database.accounts.get(id)?.reserved, 0n, "the reserve");
  }

  #isBusy(): boolean {
    return this.#open.length > 0 || this.#database.isSent || this.#database.queued > 0;
  }

  #check(): void {
    if (this.#problem !== undefined) throw this.#problem;
    for (const { name, id } of accounts) {
      const { balance = 0n, overdraft = 0n, reserved = 0n } = this.#database.accounts.get(id) ?? {};
      const secured = this.#open.reduce((sum, request) => sum + securedOf(request, id), 0n);
      same(secured <= reserved, true, `${name} has reserved what requests hold`);
      same(reserved <= balance + overdraft, true, `${name} can pay what it has reserved`);
    }
    const held = [...this.#open, ...this.#unheard].reduce(
      (sum, request) => sum + heldBy(request),
      0n,
    );
    same(this.#holds.total(), held, "the sum of the holds");
  }

  /** Another process changes something. */
  #command(kind: number, word: number): void {
    const { name, id } = accounts[word % 2] ?? accounts[0];
    const key = keys[(word >>> 1) % 3] ?? keys[0];
    const amount = BigInt((word >>> 3) % 64) * this.#scale;
    const row = this.#model.account(name);
    const database = this.#database;
    const before = { ...database.accounts.get(id) };
    if (kind === 0) {
      database.credit(id, amount);
      this.#model.credit(name, amount);
    } else if (kind === 1) {
      if (!database.debit(id, amount)) return;
      row.balance -= amount;
    } else if (kind === 2) {
      if (!database.setOverdraft(id, amount)) return;
      row.overdraft = amount;
    } else if (kind === 3) {
      const budget = amount === 0n ? null : amount;
      database.setBudget(key.keyId, budget);
      this.#model.key(key.name).budget = budget;
    } else {
      if (!database.refund(key.accountId, key.keyId, amount)) return;
      this.#model.credit(key.account, amount);
      this.#model.key(key.name).spent -= amount;
    }
    const after = database.accounts.get(id);
    const { balance = 0n, overdraft = 0n } = before;
    if (after && after.balance + after.overdraft < balance + overdraft)
      this.#decreases.set(id, this.#decreasesOf(id) + 1);
    const kinds = ["credit", "debit", "overdraft", "budget", "refund"];
    this.#tell?.(`${kinds[kind]} ${kind < 3 ? name : key.name} ${amount}`);
  }

  async #ask(word: number): Promise<void> {
    const demand = this.#demandOf(word);
    const { id, key, range, model } = demand;
    const owner = { ...key, requestId: id };
    const asked = `${key.name} ${id} of ${range.least} to ${range.most}`;
    if ((word >>> 19) % 2 === 0) {
      this.#tell?.(`take ${asked}`);
      this.#decided(demand, this.#holds.take(owner, range));
      return;
    }
    this.#tell?.(`take or wait for ${asked}`);
    const waiting: WaitingRequest = { ...demand, signal: { aborted: false } };
    const holdWait = { waitMs: FOR_EVER_MS, signal: waiting.signal };
    const asking = this.#holds.takeOrWait(holdWait, owner, range);
    const isBusy = this.#model.decide(key.name, model).kind === "busy";
    void Promise.resolve(asking).then((taken) => (waiting.taken = taken));
    await told();
    if (isBusy) {
      same(waiting.taken, undefined, "the result of a waiting request");
      this.#waiting.push(waiting);
    } else if (waiting.taken) this.#decided(demand, waiting.taken);
    else throw new Error(`${id} gets no result`);
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
    const limits = { ...noUsage, promptTokens, cacheWrite1hTokens: promptTokens, webSearches };
    return {
      id: `req_${this.#requests++}`,
      key,
      range: amountRangeOf(limits, { least, most }, choices, prices),
      model: { prompt, unit: price * BigInt(choices), least, most },
    };
  }

  /** What was decided is what the model decides now. */
  #decided({ id, key, range, model }: Demand, taken: HoldResult): void {
    const expected = this.#model.decide(key.name, model);
    this.#tell?.(`${id} is ${expected.kind}`);
    if (!taken.ok || expected.kind !== "held") {
      same(taken.ok ? "held" : taken.reason, expected.kind, "the decision");
      const amounts = (one: object) => JSON.stringify(one, ["required", "available"]);
      same(amounts(textual(taken)), amounts(textual(expected)), "what is lacking");
      return;
    }
    same(taken.hold.amount, expected.hold, "what is held");
    same(boundWithin(range, taken.hold.amount, model), expected.tokens, "the bound");
    this.#model.hold(id, key.name, taken.hold.amount);
    const request: OpenRequest = {
      id,
      key,
      hold: taken.hold,
      state: "running",
      isSecured: undefined,
      decreases: this.#decreasesOf(key.accountId),
      charge: 0n,
    };
    this.#open.push(request);
    this.#watch(taken.hold, request, (isSecured) => {
      request.isSecured = isSecured;
      if (!isSecured) request.state = "failed";
    });
  }

  /** A hold that cannot be secured fails for a reason. */
  #watch(hold: Hold, request: OpenRequest, told: (isSecured: boolean) => void): void {
    if (hold.secured === undefined) return told(true);
    hold.secured
      .then(
        () => told(true),
        (error: unknown) => {
          const failure = error instanceof WriteError ? error.failure : String(error);
          this.#tell?.(`${request.id} is not secured: ${failure}`);
          const isTaken = request.decreases < this.#decreasesOf(request.key.accountId);
          if (failure !== "full") same(isTaken, true, `a command took the money: ${failure}`);
          told(false);
        },
      )
      .catch((problem: Error) => {
        this.#problem ??= problem;
      });
  }

  /** A waiting request is aborted; this is noticed when money is available. */
  #disconnect(word: number): void {
    const waiting = this.#waiting[word % Math.max(1, this.#waiting.length)];
    if (!waiting) return;
    this.#tell?.(`${waiting.id} disconnects`);
    waiting.signal.aborted = true;
  }

  /** A request that holds its money ends. It may cost more than it holds. */
  #end(word: number): void {
    const running = this.#open.filter(mayEnd);
    const request = running[word % Math.max(1, running.length)];
    if (!request) return;
    const { amount } = request.hold;
    const costs = [
      0n,
      amount,
      (amount * BigInt((word >>> 4) % 16)) / 16n,
      amount + BigInt((word >>> 4) % 64) * this.#scale,
    ];
    this.#askEnd(request, costs[(word >>> 2) % 4] ?? 0n);
  }

  #askEnd(request: OpenRequest, cost: bigint): void {
    const { id, key, hold } = request;
    if (cost > hold.amount && !request.more) {
      const more = hold.extend(cost - hold.amount);
      const extra = this.#model.extend(id, cost - hold.amount);
      this.#tell?.(`${id} extends by ${extra}`);
      same(more?.amount ?? 0n, extra, "what is held more");
      if (more) {
        const held = { hold: more, isSecured: undefined as boolean | undefined };
        request.more = held;
        request.decreases = this.#decreasesOf(key.accountId);
        this.#watch(more, request, (isSecured) => {
          held.isSecured = isSecured;
        });
        return;
      }
    }
    const most = hold.amount + (request.more?.hold.amount ?? 0n);
    request.charge = cost < most ? cost : most;
    request.state = "ending";
    this.#tell?.(`end ${id} with a charge of ${request.charge}`);
    const record = {
      publicId: id,
      accountId: key.accountId,
      firstKeyId: key.keyId,
      charge: request.charge,
    };
    const holds = request.more ? [hold, request.more.hold] : [hold];
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
    const ended = this.#unheard.map(({ key }) => key.accountId);
    for (const { id } of accounts) this.#learn(id);
    this.#database.hear();
    await told();
    this.#decidedAgain(ended);
    for (const request of this.#open)
      if (request.more?.isSecured === false) await this.#shorten(request);
  }

  /** What a request may cost beyond its hold could not be secured. */
  async #shorten(request: OpenRequest): Promise<void> {
    const { more } = request;
    if (!more) return;
    delete request.more;
    this.#model.shorten(request.id);
    more.hold.release();
    await told();
    this.#decidedAgain([request.key.accountId]);
  }

  /** A request whose money could not be secured is over. */
  async #giveUp(word: number): Promise<void> {
    const failed = this.#open.filter(({ state }) => state === "failed");
    const request = failed[word % Math.max(1, failed.length)];
    if (request) await this.#release(request);
  }

  async #release(request: OpenRequest): Promise<void> {
    this.#tell?.(`release ${request.id}`);
    this.#model.forget(request.id);
    this.#open = this.#open.filter((one) => one !== request);
    request.hold.release();
    await told();
    this.#decidedAgain([request.key.accountId]);
  }

  /** As the sweep does for an account without new holds. */
  #lowerReserves(): void {
    this.#tell?.("lower the reserves");
    this.#holds.close();
  }

  /** What a hold gives back goes to those that wait for it, in their order. */
  #decidedAgain(accountIds: readonly number[]): void {
    this.#waiting = this.#waiting.filter((waiting) => {
      if (!waiting.taken) return true;
      if (waiting.signal.aborted)
        same(waiting.taken.ok, false, "whether money is held after a disconnect");
      else this.#decided(waiting, waiting.taken);
      return false;
    });
    for (const waiting of this.#waiting)
      if (accountIds.includes(waiting.key.accountId)) this.#mayWait(waiting);
  }

  /** It would be busy; or its key has nothing left, which it is told at the next poll. */
  #mayWait({ key, model, signal }: WaitingRequest): void {
    const { balance, overdraft } = this.#model.account(key.account);
    const required = model.prompt + model.unit * BigInt(model.least);
    const { kind } = this.#model.decide(key.name, model);
    const waits = kind === "insufficient" && required <= balance + overdraft;
    same(waits ? "busy" : kind, "busy", "what a waiting request would be told");
    same(signal.aborted, false, "a request waits after a disconnect");
  }

  /** The gateway knows which requests of the account have ended in the database. */
  #learn(accountId: number): void {
    const known = this.#unheard.filter(({ key }) => key.accountId === accountId);
    for (const { id, charge } of known) this.#model.charge(id, "done", charge);
    this.#unheard = this.#unheard.filter((request) => !known.includes(request));
  }

  #decreasesOf(accountId: number): number {
    return this.#decreases.get(accountId) ?? 0;
  }
}

function mayEnd({ state, isSecured, more }: OpenRequest): boolean {
  return state === "running" && isSecured === true && (!more || more.isSecured === true);
}

function heldBy({ hold, more }: OpenRequest): bigint {
  return hold.amount + (more?.hold.amount ?? 0n);
}

function securedOf(request: OpenRequest, accountId: number): bigint {
  const { key, hold, isSecured, more } = request;
  if (key.accountId !== accountId) return 0n;
  return (isSecured ? hold.amount : 0n) + (more?.isSecured ? more.hold.amount : 0n);
}

/** Resolves when waiting requests have their results, before any timer. */
async function told(): Promise<void> {
  for (let tick = 0; tick < 8; tick += 1) await Promise.resolve();
}

/** Bigints as text, for JSON. */
function textual(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, String(one)]));
}
