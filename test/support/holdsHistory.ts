import { array, integer, property, type IProperty } from "fast-check";
import { createHolds, type Books, type Hold } from "../../src/billing/holds.ts";
import { amountRangeOf, boundWithin } from "../../src/billing/ceiling.ts";
import { MoneyModel, same } from "./moneyModel.ts";

/** A request in the history: `ended` once the books have its charge, which memory hears of later. */
interface OpenRequest {
  readonly id: string;
  readonly hold: Hold;
  state: "running" | "ending" | "ended";
}

const STEPS_MAX = 200;
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
export function holdsHistory(): IProperty<[readonly number[]]> {
  const step = integer({ min: 0, max: 0xffff_ffff });
  const steps = array(step, { minLength: 1, maxLength: STEPS_MAX, size: "max" });
  return property(steps, (words) => {
    try {
      play(words);
    } catch (cause) {
      // Only a history that fails is told, and then from its beginning.
      const told: string[] = [];
      expectFailure(() => play(words, (line) => told.push(line)));
      throw new Error(`${String(cause)}\n${told.join("\n")}`, { cause });
    }
  });
}

/** Hears what happens in a history, line by line. */
type Tell = (line: string) => void;

function play([first = 0, ...others]: readonly number[], tell?: Tell): void {
  const history = new HoldsHistory(first, tell);
  for (const word of others) history.step(word);
  history.finish();
}

function expectFailure(work: () => void): void {
  try {
    work();
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

  step(word: number): void {
    const kind = word % 16;
    const rest = word >>> 4;
    if (kind < 3) this.#move(kind, rest);
    else if (kind < 10) this.#take(rest);
    else if (kind < 12) this.#askEnd(rest);
    else if (kind < 14) this.#commitEnd(rest);
    else this.#hear();
    for (const account of accounts)
      same(this.#model.available(account) >= 0n, true, `${account} has promised more than it has`);
    const held = this.#open.reduce((sum, { hold }) => sum + hold.amount, 0n);
    same(this.#holds.total(), held, "the sum of the holds");
  }

  finish(): void {
    for (const { hold } of this.#open) hold.release();
    same(this.#holds.total(), 0n, "what is held when all is over");
  }

  #move(kind: number, word: number): void {
    const account = accounts[word % 2] ?? "shared";
    const amount = BigInt((word >>> 1) % 64) * this.#scale;
    if (kind === 0) this.#model.credit(account, amount);
    else if (kind === 1) this.#model.debit(account, amount);
    else this.#model.setOverdraft(account, amount);
    this.#tell?.(`${["credit", "debit", "overdraft"][kind]} ${account} ${amount}`);
  }

  #take(word: number): void {
    const key = keys[word % 3] ?? keys[0];
    const least = ((word >>> 2) % 8) + 1;
    const most = least + ((word >>> 5) % 16);
    const choices = ((word >>> 9) % 3) + 1;
    const price = BigInt((word >>> 11) % 4) * this.#scale;
    const promptTokens = (word >>> 13) % 16;
    const prices = { input: 0n, cachedInput: 0n, cacheWrite: 0n, output: price };
    prices[inputPrices[(word >>> 17) % 3] ?? "input"] = this.#scale;
    const range = amountRangeOf(promptTokens, { least, most }, choices, prices);
    const id = `req_${this.#requests++}`;
    const expected = this.#model.decide(key.name, {
      prompt: BigInt(promptTokens) * this.#scale,
      unit: price * BigInt(choices),
      least,
      most,
    });
    this.#tell?.(`take ${key.name} of ${range.least} to ${range.most}: ${expected.kind}`);
    const taken = this.#holds.take({ ...key, requestId: id }, range, this.#booksOf(key));
    if (!taken.ok || expected.kind !== "held") {
      same(taken.ok ? "held" : taken.reason, expected.kind, "the decision");
      const amounts = (one: object) => JSON.stringify(one, ["required", "available"]);
      same(amounts(textual(taken)), amounts(textual(expected)), "what is lacking");
      return;
    }
    same(taken.hold.amount, expected.hold, "what is held");
    same(boundWithin(range, taken.hold.amount, { least, most }), expected.tokens, "the bound");
    this.#model.promise(id, key.name, taken.hold.amount);
    same(this.#model.open(id), true, "the books can pay what is held");
    this.#open.push({ id, hold: taken.hold, state: "running" });
  }

  #askEnd(word: number): void {
    const running = this.#open.filter(({ state }) => state === "running");
    const request = running[word % Math.max(1, running.length)];
    if (!request) return;
    request.state = "ending";
    this.#tell?.(`ask for the end of ${request.id}`);
    request.hold.ending();
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
  #hear(): void {
    const at = this.#open.findIndex(({ state }) => state === "ended");
    if (at < 0) return;
    for (const { id, hold } of this.#open.splice(at, 1)) {
      this.#tell?.(`hear of the end of ${id}`);
      this.#model.forget(id);
      hold.release();
    }
  }

  #booksOf({ name, account }: (typeof keys)[number]): Books {
    const funds = () => {
      const { balance, overdraft } = this.#model.account(account);
      const { budget, spent } = this.#model.key(name);
      return { balance, overdraft, budget, spent };
    };
    const isEnded = (id: string) => this.#model.request(id).status !== "running";
    return {
      funds,
      fundsBeside: (requestIds) => ({ ...funds(), endedIds: requestIds.filter(isEnded) }),
    };
  }
}

/** Bigints as text, for JSON. */
function textual(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, String(one)]));
}
