import { type HistoryKey, snapshotOfStore, snapshotOfModel } from "./snapshots.ts";
import { MoneyModel, same, type ModelDecision, type ModelRefusal } from "./moneyModel.ts";
import type { TestApp, TestKey } from "../gateway/testApp.ts";
import { array, asyncProperty, integer, type IAsyncProperty } from "fast-check";
import { formatRoubles } from "../../../src/lib/money.ts";
import { openCall, type OpenReply } from "../gateway/chatCalls.ts";
import {
  bodyOf,
  chargeOf,
  demandOf,
  estimateOf,
  impossibleUsage,
  mostTokens,
  requestOf,
  type HistoryRequest,
} from "./historyWays.ts";
import {
  SAID,
  type ProviderEnd,
  type ControlledAnswer,
  type ReportedTokens,
} from "./moneyProvider.ts";
import { LEAST_COST, PLAN } from "./historyPrices.ts";
import { requestIdOf } from "../provider/scriptedProvider.ts";
import { until, untilAsync } from "../until.ts";

const STEPS_MAX = 24;

interface OpenRequest extends HistoryRequest {
  readonly id: string;
  readonly turn: ControlledAnswer;
  readonly reply: Promise<OpenReply>;
  /** The most tokens of all choices together that are held for. */
  readonly tokensHeld: number;
}

let histories = 0;

/** The whole gateway over HTTP against the model, requests open beside each other. */
export function httpHistory(
  gateway: TestApp,
  takeTurn: (words: string) => ControlledAnswer,
): IAsyncProperty<[readonly number[]]> {
  const step = integer({ min: 0, max: 0xffff_ffff });
  const steps = array(step, { minLength: 1, maxLength: STEPS_MAX, size: "max" });
  return asyncProperty(steps, async ([first = 0, ...others]) => {
    const history = new HttpHistory(gateway, takeTurn);
    try {
      await history.begin(first);
      for (const word of others) await history.step(word);
      await history.finish();
    } catch (cause) {
      // Whatever is open must not reach into the next history.
      await history.letAllGo();
      throw new Error(`${String(cause)}\n${history.told.join("\n")}`, { cause });
    }
  });
}

/** One history on accounts of its own: each word says what happens next, and to what. */
class HttpHistory {
  readonly told: string[] = [];
  readonly #gateway: TestApp;
  readonly #takeTurn: (words: string) => ControlledAnswer;
  readonly #model = new MoneyModel();
  readonly #accounts: readonly string[];
  #keys: readonly HistoryLine[] = [];
  readonly #name = `${histories++}`;
  readonly #withPlan = new Set<string>();
  readonly #controlledAnswers: ControlledAnswer[] = [];
  #open: OpenRequest[] = [];

  constructor(gateway: TestApp, takeTurn: (words: string) => ControlledAnswer) {
    this.#gateway = gateway;
    this.#takeTurn = takeTurn;
    this.#accounts = [`shared${this.#name}`, `other${this.#name}`];
  }

  async begin(word: number): Promise<void> {
    const budget = BigInt(word % 4096);
    this.told.push(`budgets of ${budget}`);
    const line = (name: string, at: number, budget: bigint | null) =>
      historyLine(this.#gateway, this.#model, { name, account: this.#accounts[at] ?? "", budget });
    this.#keys = [
      await line("plain", 0, null),
      await line("bounded", 0, budget),
      await line("alone", 1, budget),
    ];
    if ((word >>> 15) % 2 === 0) await this.#plan(this.#accounts[1] ?? "");
    if ((word >>> 12) % 2 === 0) for (const key of this.#keys) this.told.push(await key.change(0));
    if ((word >>> 13) % 2 === 0)
      for (const at of [0, 1]) await this.#move(0, (word >>> 14) * 2 + at);
  }

  /** From now on the account has the plan. */
  async #plan(account: string): Promise<void> {
    const actor = { name: "tester", command: "test", at: 0 };
    await this.#gateway.store.admin.setAccount(actor, account, { plan: PLAN });
    this.#withPlan.add(account);
    this.told.push(`plan of ${account}`);
  }

  async step(word: number): Promise<void> {
    const kind = word % 16;
    const rest = word >>> 4;
    if (kind < 4) await this.#move(kind, rest);
    else if (kind < 10) await this.#ask(rest);
    else if (kind < 14) await this.#end(rest);
    else if (kind === 14) await this.#disconnect(rest);
    else this.told.push((await this.#keys[rest % 3]?.change(rest >>> 2)) ?? "");
    await this.#compare();
  }

  async finish(): Promise<void> {
    for (const request of this.#open) await this.#endAs(request, { kind: "fails" });
    await this.#compare();
  }

  async letAllGo(): Promise<void> {
    for (const turn of this.#controlledAnswers) turn.end({ kind: "fails" });
    const { holds } = this.#gateway.app.gateway;
    await until("nothing is held any more", () => holds.total() === 0n);
  }

  async #move(kind: number, word: number): Promise<void> {
    const account = this.#accounts[word % 2] ?? "";
    // Some are large enough for a few searches.
    const amount = BigInt(((word >>> 1) % 1024) + 1) * ((word >>> 11) % 2 === 0 ? 16n : 1n);
    const { admin } = this.#gateway.store;
    const actor = { name: "tester", command: "test", at: 0 };
    const booking = { account, amount, ref: null, note: null };
    if (kind < 2) {
      this.#model.credit(account, amount);
      await admin.changeBalance(actor, { ...booking, kind: "credit" });
      this.told.push(`credit ${account} ${amount}`);
    } else if (kind === 2) {
      await this.#takeAway(account, `debit ${account} ${amount}`, {
        work: async () => await admin.changeBalance(actor, { ...booking, kind: "debit" }),
        left: (money) => money - amount,
        expected: (model) => model.debit(account, amount),
      });
    } else {
      const { overdraft } = this.#model.account(account);
      await this.#takeAway(account, `overdraft ${account} ${amount}`, {
        work: async () => await admin.setAccount(actor, account, { overdraft: amount }),
        left: (money) => money - overdraft + amount,
        expected: (model) => model.setOverdraft(account, amount),
      });
    }
  }

  /** A command may take what nothing holds, unless the gateway still has it reserved. */
  async #takeAway(
    account: string,
    what: string,
    change: {
      work(): Promise<unknown>;
      /** Balance and overdraft after it. */
      left(money: bigint): bigint;
      expected(model: MoneyModel): boolean;
    },
  ): Promise<void> {
    const { balance, overdraft } = this.#model.account(account);
    const before = await this.#reserved(account);
    let isDone = true;
    try {
      await change.work();
    } catch {
      isDone = false;
    }
    this.told.push(`${what}: ${isDone}`);
    if (isDone) return same(true, change.expected(this.#model), what);
    // The writer may have changed the reserve meanwhile.
    const after = await this.#reserved(account);
    const left = change.left(balance + overdraft);
    same(left < before || left < after, true, `${what} is refused, and the money is not reserved`);
  }

  async #reserved(account: string): Promise<bigint> {
    return (await this.#gateway.store.accounts.findOrThrow(account)).reserved;
  }

  /** Sends a request; it waits at its provider, or is refused. */
  async #ask(word: number): Promise<void> {
    const key = this.#keys[word % 3];
    if (!key) return;
    const words = `${this.#name}-${this.#controlledAnswers.length}`;
    const asked = requestOf(word >>> 2, words, this.#withPlan.has(key.account));
    const expected = this.#model.decide(key.name, demandOf(asked));
    this.told.push(`${words} asks by ${key.name} ${JSON.stringify(asked)}: ${expected.kind}`);
    const turn = this.#takeTurn(words);
    this.#controlledAnswers.push(turn);
    const reply = openCall(this.#gateway, key.anyOf(word >>> 17), bodyOf(asked));
    if (expected.kind !== "held") return this.#refused(await reply, expected, key.name);
    const request = await Promise.race([turn.reached, reply.then(refusalOf)]);
    same(
      request.json["max_tokens"] ?? request.json["max_output_tokens"],
      sentBound(expected, asked),
      "the bound that is sent",
    );
    const id = requestIdOf(request) ?? "";
    this.#model.hold(id, key.name, expected.hold);
    const isReserved = async () =>
      (await this.#reserved(key.account)) >= this.#model.held(key.account);
    await untilAsync("the money of all open requests is reserved", isReserved);
    const tokensHeld = expected.tokens * asked.choices;
    this.#open.push({ ...asked, id, turn, reply, tokensHeld });
  }

  async #refused(reply: OpenReply, expected: ModelRefusal, key: string): Promise<void> {
    await until("the refusal is whole", () => reply.isOver);
    const { error } = JSON.parse(reply.text) as { error: Record<string, unknown> };
    const seen = [reply.status, error["required_rub"], error["available_rub"]].join(" ");
    const status = expected.kind === "insufficient" ? 402 : 429;
    // Money for nothing is refused before the body is read, if the gateway has a fresh answer of its database.
    const isPoor = this.#model.mostOf(key) < LEAST_COST;
    const isEarly = isPoor && error["required_rub"] === formatRoubles(LEAST_COST);
    const required = isEarly ? LEAST_COST : expected.required;
    const amounts = [formatRoubles(required), formatRoubles(expected.available)];
    same(seen, [status, ...amounts].join(" "), "the refusal");
  }

  async #end(word: number): Promise<void> {
    const request = this.#open[word % Math.max(1, this.#open.length)];
    if (!request) return;
    const kind = (word >>> 4) % 8;
    const cacheWrite = (word >>> 11) % 64;
    const tokens: ReportedTokens = {
      prompt: (word >>> 7) % 60,
      cached: (word >>> 9) % 64,
      cacheWrite,
      hour: (word >>> 13) % (cacheWrite + 1),
      completion: (word >>> 15) % (kind === 0 ? 512 : request.tokensHeld + 1),
      searches: (word >>> 17) % (request.searchesMax + (kind === 0 ? 3 : 1)),
    };
    const isCounted = kind > 1 || request.path === "responses";
    if (kind === 7) await this.#endAs(request, { kind: "fails" });
    else if (isCounted || kind === 0) await this.#endAs(request, { kind: "said", tokens });
    else
      await this.#endAs(request, {
        kind: "uncounted",
        usage: impossibleUsage(request, word >>> 7),
      });
  }

  async #endAs(request: OpenRequest, how: ProviderEnd): Promise<void> {
    const { id, turn } = request;
    const cost =
      how.kind === "said"
        ? chargeOf(request, how.tokens)
        : how.kind === "fails"
          ? 0n
          : estimateOf(request, request.tokensHeld);
    this.told.push(`${request.words} ends: ${JSON.stringify(how)}, which costs ${cost}`);
    turn.end(how);
    const reply = await request.reply;
    await until("the answer is whole", () => reply.isOver);
    this.#over(request);
    const end = this.#model.end(id, how.kind === "fails" ? "failed" : "done", cost);
    const isJson = request.path !== "responses" && !request.stream && how.kind !== "fails";
    if (isJson)
      same(
        reply.headers.get("x-tollgate-cost-rub"),
        formatRoubles(end?.charge ?? -1n),
        "the shown cost",
      );
    if (how.kind !== "fails") {
      const answered = request.model === "rescued" ? "small" : null;
      return same(reply.headers.get("x-tollgate-model"), answered, "the model that answered");
    }
    same(reply.status, request.stream ? 200 : 502, "the status of a failure");
    // Failures of a provider that the histories want must not keep later requests from it.
    this.#gateway.forgetFailures();
  }

  /** The client of a stream goes away: charged is what came so far, by the estimate. */
  async #disconnect(word: number): Promise<void> {
    const streams = this.#open.filter(({ stream }) => stream);
    const request = streams[word % Math.max(1, streams.length)];
    if (!request) return;
    const cost = estimateOf(request, request.tokensHeld);
    this.told.push(`${request.words} leaves, which costs ${cost}`);
    const reply = await request.reply;
    await reply.seen(SAID);
    reply.disconnect();
    const { requests } = this.#gateway.store;
    const status = async () => (await requests.find(request.id))?.status ?? "running";
    await untilAsync("it is settled", async () => (await status()) !== "running");
    request.turn.end({ kind: "fails" });
    this.#over(request);
    this.#model.end(request.id, "cancelled", cost);
  }

  #over(request: OpenRequest): void {
    this.#open = this.#open.filter((one) => one !== request);
  }

  async #compare(): Promise<void> {
    const snapshot = await snapshotOfStore(this.#gateway.store, this.#keys);
    const seen = snapshotOfModel(ended(snapshot));
    same(seen, snapshotOfModel(ended(this.#model)), "the store");
    for (const account of this.#accounts)
      same(
        (await this.#reserved(account)) >= this.#model.held(account),
        true,
        "what is held is reserved",
      );
  }
}

/** Without the running requests: they get a row only after a while. */
function ended(model: MoneyModel): MoneyModel {
  const copy = model.copy();
  for (const [id, { status }] of copy.requests) if (status === "running") copy.requests.delete(id);
  return copy;
}

/** What the provider must be sent: the caller's own bound, or the one that money shrank. */
function sentBound(
  { tokens }: Extract<ModelDecision, { kind: "held" }>,
  asked: HistoryRequest,
): number | undefined {
  return tokens < mostTokens(asked) ? tokens : asked.bound;
}

async function refusalOf(reply: OpenReply): Promise<never> {
  await until("the refusal is whole", () => reply.isOver);
  throw new Error(`refused with ${reply.status}: ${reply.text}`);
}

/** Longer than any history. */
const GRACE_MS = 3_600_000;
const KEYS_MAX = 4;
/** Small enough that it often is what a request lacks. */
const BUDGET_MAX = 1024;

/** A key of a history and those that rotations put in its place; to the model they are one. */
export interface HistoryLine extends HistoryKey {
  /** One of its keys, all of which work. */
  anyOf(word: number): TestKey;
  /** Rotates it, or sets its budget on one of its keys; returns what happened. */
  change(word: number): Promise<string>;
}

/** Makes the first key of one, in the gateway and in the model. */
async function historyLine(
  gateway: TestApp,
  model: MoneyModel,
  made: { name: string; account: string; budget: bigint | null },
): Promise<HistoryLine> {
  const { name, account, budget } = made;
  model.addKey(name, account, budget);
  const first = await gateway.key({ account, balance: 0n, ...(budget === null ? {} : { budget }) });
  const keys: TestKey[] = [first];
  const { store } = gateway;
  const anyOf = (word: number): TestKey => keys[word % keys.length] ?? first;
  return {
    name,
    account,
    keyId: (await store.keys.find(first.id))?.id ?? 0,
    anyOf,
    async change(word) {
      if (word % 2 === 0 && keys.length < KEYS_MAX) {
        keys.push(await gateway.rotate(keys.at(-1) ?? first, GRACE_MS));
        return `${name} is rotated`;
      }
      const budget = word % 8 === 1 ? null : BigInt((word >>> 3) % BUDGET_MAX);
      const changed = anyOf(word >>> 15);
      await store.admin.changeKey({ name: "tester", command: "test", at: 0 }, changed.id, {
        budget,
      });
      await gateway.toldOfChanges();
      model.key(name).budget = budget;
      return `the budget of ${name} is ${budget}`;
    },
  };
}
