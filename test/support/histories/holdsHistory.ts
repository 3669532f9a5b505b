import { array, asyncProperty, integer, type IAsyncProperty } from "fast-check";
import {
  createHolds,
  type FundsReader,
  type Hold,
  type HoldResult,
} from "../../../src/billing/holds.ts";
import { amountRangeOf, boundWithin, type AmountRange } from "../../../src/billing/cost.ts";
import { MoneyModel, same, type ModelDemand } from "./moneyModel.ts";

/** A request in the history: `ended` once its charge is committed, before memory releases the hold. */
interface OpenRequest {
  readonly id: string;
  readonly hold: Hold;
  state: "running" | "ending" | "ended";
}

/** What a request asks for, in the words of memory and of the model. */
interface Demand {
  readonly id: string;
  readonly key: (typeof keys)[number];
  readonly range: AmountRange;
  readonly model: ModelDemand;
}

/** A request that waits for its money; `taken` once it was told. */
interface WaitingRequest extends Demand {
  readonly signal: { aborted: boolean };
  taken?: HoldResult;
}

const STEPS_MAX = 200;
/** No history takes so long. */
const FOR_EVER_MS = 1_000_000;
const keys = [
  { name: "plain", account: "shared", accountId: 1, keyId: 1 },
  { name: "bounded", account: "shared", accountId: 1, keyId: 2 },
  { name: "alone", account: "other", accountId: 2, keyId: 3 },
] as const;
const accounts = ["shared", "other"] as const;
const inputPrices = ["input", "cachedInput", "cacheWrite"] as const;
/** Amounts are small, so that they often fit exactly; some histories count them in what a double cannot. */
const scales = [1n, 2n ** 53n + 1n] as const;

/** The holds of a gateway against the model, in any order of what can happen to them; no store, no clock. */
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
  readonly #model = new MoneyModel();
  readonly #holds = createHolds();
  readonly #open: OpenRequest[] = [];
  /** Longest first. */
  #waiting: WaitingRequest[] = [];
  readonly #scale: bigint;
  readonly #tell: Tell | undefined;
  #requests = 0;

  constructor(word: number, tell?: Tell) {
    this.#tell = tell;
    this.#scale = scales[word % 2] ?? 1n;
    const budget = BigInt((word >>> 1) % 128) * this.#scale;
    for (const { name, account } of keys)
      this.#model.addKey(name, account, name === "plain" ? null : budget);
    tell?.(`budgets of ${budget}`);
  }

  async step(word: number): Promise<void> {
    const kind = word % 16;
    const rest = word >>> 4;
    if (kind < 3) this.#move(kind, rest);
    else if (kind < 9) await this.#ask(rest);
    else if (kind < 10) this.#disconnect(rest);
    else if (kind < 12) this.#askEnd(rest);
    else if (kind < 14) this.#commitEnd(rest);
    else await this.#hear();
    for (const account of accounts)
      same(this.#model.available(account) >= 0n, true, `${account} has promised more than it has`);
    const held = this.#open.reduce((sum, { hold }) => sum + hold.amount, 0n);
    same(this.#holds.total(), held, "the sum of the holds");
  }

  /** All that is held is given back, also by those that waited for it. */
  async finish(): Promise<void> {
    for (let request = this.#open.shift(); request; request = this.#open.shift())
      await this.#release(request);
    same(this.#holds.total(), 0n, "what is held when all is over");
    same(this.#waiting.length, 0, "requests that wait although nothing is held");
  }

  #move(kind: number, word: number): void {
    const account = accounts[word % 2] ?? "shared";
    const amount = BigInt((word >>> 1) % 64) * this.#scale;
    if (kind === 0) this.#model.credit(account, amount);
    else if (kind === 1) this.#model.debit(account, amount);
    else this.#model.setOverdraft(account, amount);
    this.#tell?.(`${["credit", "debit", "overdraft"][kind]} ${account} ${amount}`);
  }

  async #ask(word: number): Promise<void> {
    const demand = this.#demandOf(word);
    const { id, key, range, model } = demand;
    const owner = { ...key, requestId: id };
    const asked = `${key.name} ${id} of ${range.least} to ${range.most}`;
    if ((word >>> 19) % 2 === 0) {
      this.#tell?.(`take ${asked}`);
      this.#decided(demand, this.#holds.take(owner, range, this.#fundsReaderOf(key)));
      return;
    }
    this.#tell?.(`take or wait for ${asked}`);
    const waiting: WaitingRequest = { ...demand, signal: { aborted: false } };
    const holdWait = { waitMs: FOR_EVER_MS, signal: waiting.signal };
    const isBusy = this.#model.decide(key.name, model).kind === "busy";
    void this.#holds
      .takeOrWait(holdWait, owner, range, this.#fundsReaderOf(key))
      .then((taken) => (waiting.taken = taken));
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
    const prices = { input: 0n, cachedInput: 0n, cacheWrite: 0n, output: price };
    prices[inputPrices[(word >>> 17) % 3] ?? "input"] = this.#scale;
    const prompt = BigInt(promptTokens) * this.#scale;
    return {
      id: `req_${this.#requests++}`,
      key,
      range: amountRangeOf(promptTokens, { least, most }, choices, prices),
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
    this.#model.promise(id, key.name, taken.hold.amount);
    same(this.#model.open(id), true, "the account can pay the hold");
    this.#open.push({ id, hold: taken.hold, state: "running" });
  }

  /** A waiting request is aborted; this is noticed when money is available. */
  #disconnect(word: number): void {
    const waiting = this.#waiting[word % Math.max(1, this.#waiting.length)];
    if (!waiting) return;
    this.#tell?.(`${waiting.id} leaves`);
    waiting.signal.aborted = true;
  }

  #askEnd(word: number): void {
    const running = this.#open.filter(({ state }) => state === "running");
    const request = running[word % Math.max(1, running.length)];
    if (!request) return;
    request.state = "ending";
    this.#tell?.(`ask for the end of ${request.id}`);
    request.hold.startSettling();
  }

  /** The writer commits the oldest end that was asked for; the cost may be anything. */
  #commitEnd(word: number): void {
    const request = this.#open.find(({ state }) => state === "ending");
    if (!request) return;
    request.state = "ended";
    const { amount } = request.hold;
    const costs = [
      0n,
      amount,
      (amount * BigInt((word >>> 2) % 16)) / 16n,
      amount * 2n + this.#scale,
    ];
    const cost = costs[word % 4] ?? 0n;
    this.#tell?.(`commit the end of ${request.id}, which costs ${cost}`);
    this.#model.end(request.id, cost === 0n ? "failed" : "done", cost);
  }

  /** Memory hears of the oldest end that was committed. */
  async #hear(): Promise<void> {
    const at = this.#open.findIndex(({ state }) => state === "ended");
    for (const request of at < 0 ? [] : this.#open.splice(at, 1)) await this.#release(request);
  }

  /** What a hold gives back goes to those that wait for it, in their order. */
  async #release({ id, hold }: OpenRequest): Promise<void> {
    this.#tell?.(`${id} is over`);
    this.#model.forget(id);
    const account = this.#model.key(this.#model.request(id).key).account;
    hold.release();
    await told();
    this.#waiting = this.#waiting.filter((waiting) => {
      if (waiting.key.account !== account) return true;
      if (waiting.signal.aborted) {
        same(waiting.taken?.ok, false, "whether money is held for one that left");
        return false;
      }
      if (waiting.taken) this.#decided(waiting, waiting.taken);
      else this.#mayWait(waiting);
      return !waiting.taken;
    });
  }

  /** It would be busy; or its key has nothing left, which it is told at the next poll. */
  #mayWait({ key, model }: WaitingRequest): void {
    const { balance, overdraft } = this.#model.account(key.account);
    const required = model.prompt + model.unit * BigInt(model.least);
    const { kind } = this.#model.decide(key.name, model);
    const waits = kind === "insufficient" && required <= balance + overdraft;
    same(waits ? "busy" : kind, "busy", "what one that waits would be told");
  }

  #fundsReaderOf({ name, account }: (typeof keys)[number]): FundsReader {
    const funds = () => {
      const { balance, overdraft } = this.#model.account(account);
      const { budget, spent } = this.#model.key(name);
      return { balance, overdraft, budget, spent };
    };
    const isEnded = (id: string) => this.#model.request(id).status !== "running";
    return {
      funds,
      fundsWithSettled: (requestIds) => ({ ...funds(), settledIds: requestIds.filter(isEnded) }),
    };
  }
}

/** Resolves when waiting requests have their results, before any timer. */
async function told(): Promise<void> {
  for (let tick = 0; tick < 8; tick += 1) await Promise.resolve();
}

/** Bigints as text, for JSON. */
function textual(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, String(one)]));
}
