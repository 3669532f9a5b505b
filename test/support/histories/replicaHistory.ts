import { array, asyncProperty, integer, type IAsyncProperty } from "fast-check";
import type { Hold } from "../../../src/billing/hold.ts";
import { WriteError } from "../../../src/store/store.ts";
import { same } from "./moneyModel.ts";
import {
  ACCOUNT,
  BUDGET_KEY,
  PLAIN_KEY,
  ReplicaDatabase,
  type Replica,
} from "./replicaDatabase.ts";

/** `charged`: its end is committed, and the replica does not know it. */
type State = "open" | "ending" | "charged" | "over";

interface Request {
  readonly replica: Replica;
  readonly keyId: number;
  /** More than one if it was extended. */
  readonly holds: Hold[];
  readonly signal: { aborted: boolean };
  state: State | "waiting";
  /** The largest budget since it arrived. */
  budget: bigint;
}

const STEPS_MAX = 150;
const ROUNDS_MAX = 500;
/** No history takes so long. */
const FOR_EVER_MS = 1_000_000;

/** Two to four replicas that share one account, in any order of what can happen to their holds. No database, no clock. */
export function replicaHistory(): IAsyncProperty<[readonly number[]]> {
  const step = integer({ min: 0, max: 0xffff_ffff });
  const steps = array(step, { minLength: 1, maxLength: STEPS_MAX, size: "max" });
  return asyncProperty(steps, async ([first = 0, ...others]) => {
    const history = new ReplicaHistory(first);
    try {
      for (const word of others) await history.step(word);
      await history.finish();
    } finally {
      history.close();
    }
  });
}

class ReplicaHistory {
  readonly #database: ReplicaDatabase;
  #requests: Request[] = [];
  /** The budget was removed at some time. */
  #wasRemoved = false;
  /** The requests of the key with a budget that came to hold money since the last check. */
  #opened: Request[] = [];
  /** What the account should have in the end. */
  #balance: bigint;
  #problem: Error | undefined;

  constructor(word: number) {
    this.#balance = BigInt(word % 128);
    const budget = BigInt((word >>> 7) % 128);
    const replicas = 2 + ((word >>> 14) % 3);
    const areChangesCounted = (word >>> 17) % 2 === 1;
    const money = { balance: this.#balance, budget };
    this.#database = new ReplicaDatabase({ ...money, replicas, areChangesCounted });
  }

  async step(word: number): Promise<void> {
    const rest = word >>> 8;
    const replica = this.#replicaOf(word >>> 5);
    const kind = word % 32;
    if (kind < 9) this.#ask(replica, rest);
    else if (kind < 15) this.#end(rest);
    else if (kind < 16) this.#release(rest);
    else if (kind < 18) this.#command(rest);
    else if (kind < 21) replica.send();
    else if (kind < 24) this.#commit(replica, rest);
    else if (kind < 27) replica.hear();
    else if (kind < 28) replica.hearWanted();
    else if (kind < 29) this.#disconnect(rest);
    else if (kind < 30) await this.#extend(rest);
    else if (kind < 31) replica.holds.close();
    else if (rest % 4 === 0) this.#loseLease(replica);
    await told();
    this.#check();
  }

  /** Every request ends, and all that is held or reserved is given back. */
  async finish(): Promise<void> {
    for (let round = 0; this.#requests.some(({ state }) => state !== "over"); round += 1) {
      same(round < ROUNDS_MAX, true, "every request comes to its end");
      for (const request of this.#requests) if (request.state === "open") this.#charge(request, 0n);
      // Replicas do not ask in step: each gives back first what does not suffice.
      this.#replicaOf(Math.floor(round / 4)).holds.changed(ACCOUNT);
      for (const replica of this.#database.replicas) {
        replica.hearWanted();
        replica.send();
        this.#commit(replica, 0);
        replica.hear();
        await told();
        this.#check();
      }
    }
    for (const replica of this.#database.replicas) {
      replica.stop();
      same(replica.holds.total(), 0n, "what a replica holds when all is over");
      same(replica.holds.reserved(), 0n, "what a replica has reserved when all is over");
    }
    // A replica that lost its lease heard only now that its last batch was committed.
    await told();
    same(this.#database.reserved, 0n, "what is reserved when all is over");
    for (const block of this.#database.chain(BUDGET_KEY).blocks.values())
      same(block, 0n, "what is reserved of the budget when all is over");
    same(this.#database.balance, this.#balance, "the balance");
  }

  /** Ends the timers. */
  close(): void {
    for (const { holds } of this.#database.replicas) holds.reset();
  }

  #check(): void {
    if (this.#problem !== undefined) throw this.#problem;
    const { reserved, spendable, replicas, blocks } = this.#database;
    same(reserved <= spendable, true, "the account can pay what all replicas have reserved");
    if (this.#opened.length > 0 && !this.#wasRemoved) {
      const budget = this.#opened.reduce(
        (most, one) => (one.budget > most ? one.budget : most),
        0n,
      );
      same(this.#spentOrHeld() <= budget, true, "a budget is not exceeded");
    }
    this.#opened = [];
    for (const replica of replicas) {
      const own = this.#requests.filter((request) => request.replica === replica);
      const known = own.filter(({ state }) => state !== "over");
      same(replica.holds.total(), sumOf(known), "the sum of the holds of a replica");
      const unpaid = known.filter(({ state }) => state !== "charged");
      const block = blocks.get(replica) ?? 0n;
      same(sumOf(unpaid) <= block, true, "the block of a replica covers its holds");
      const ofBudget = unpaid.filter(({ keyId }) => keyId === BUDGET_KEY);
      const budgetBlock = this.#database.chain(BUDGET_KEY).blocks.get(replica) ?? 0n;
      const isCovered = sumOf(ofBudget) <= budgetBlock || this.#wasRemoved;
      same(isCovered, true, "so does its block of the budget");
    }
  }

  #ask(replica: Replica, word: number): void {
    const keyId = word % 2 === 0 ? PLAIN_KEY : BUDGET_KEY;
    const least = BigInt((word >>> 1) % 32);
    const most = least + ((word >>> 6) % 2 === 0 ? 0n : BigInt((word >>> 7) % 64));
    const signal = { aborted: false };
    const budget = this.#budget;
    const request: Request = { replica, keyId, holds: [], signal, state: "waiting", budget };
    this.#requests.push(request);
    const waitMs = (word >>> 13) % 3 === 0 ? 0 : FOR_EVER_MS;
    const owner = { accountId: ACCOUNT, keyId, requestId: "id" };
    const range = { least, most, step: 1n };
    const asked = async () => {
      try {
        const result = await replica.holds.takeOrWait({ waitMs, signal }, owner, range);
        request.state = result.ok ? "open" : "over";
        if (!result.ok) return;
        same(signal.aborted, false, "money is held after a disconnect");
        same(result.hold.secured, undefined, "a hold is secured from its beginning");
        request.holds.push(result.hold);
        if (keyId === BUDGET_KEY && result.hold.amount > 0n) this.#opened.push(request);
      } catch (error) {
        request.state = "over";
        if (!(error instanceof WriteError)) this.#problem ??= error as Error;
      }
    };
    void asked();
  }

  #end(word: number): void {
    const request = this.#openOne(word);
    if (request) this.#charge(request, (sumOf([request]) * BigInt((word >>> 8) % 17)) / 16n);
  }

  #charge(request: Request, charge: bigint): void {
    request.state = "ending";
    const { replica, keyId, holds } = request;
    const ended = async () => {
      try {
        await replica.end(keyId, charge, holds);
        this.#balance -= charge;
        request.state = "over";
      } catch {
        if (request.state === "ending") request.state = "open";
      }
    };
    void ended();
  }

  #release(word: number): void {
    const request = this.#openOne(word);
    if (!request) return;
    request.state = "over";
    for (const hold of request.holds) hold.release();
  }

  #command(word: number): void {
    const amount = BigInt((word >>> 2) % 64);
    const credit = word % 4 < 2 ? amount : -amount;
    if (word % 4 === 0) this.#setBudget(amount * BigInt((word >>> 8) % 4));
    else if (word % 64 === 1) this.#removeBudget();
    else if (this.#database.credit(credit)) this.#balance += credit;
  }

  /** What requests hold without a budget is not counted in the blocks of the next one. */
  #removeBudget(): void {
    this.#database.setBudget(null);
    this.#wasRemoved = true;
  }

  /** A request that waits may still be decided by a budget that was lowered since it arrived. */
  #setBudget(budget: bigint): void {
    this.#database.setBudget(budget);
    for (const request of this.#requests)
      if (request.state === "waiting" && request.budget < budget) request.budget = budget;
  }

  get #budget(): bigint {
    return this.#database.chain(BUDGET_KEY).budget ?? 0n;
  }

  /** By the key with a budget. What is charged counts as spent, also while its replica does not know it. */
  #spentOrHeld(): bigint {
    const held = this.#requests.filter(
      ({ keyId, state }) => keyId === BUDGET_KEY && state !== "over" && state !== "charged",
    );
    return this.#database.chain(BUDGET_KEY).spent + sumOf(held);
  }

  #commit(replica: Replica, word: number): void {
    const failure = word % 8 === 7 ? new WriteError("busy", "no connection") : undefined;
    const committed = new Set(replica.commit(failure));
    for (const request of this.#requests)
      if (request.holds.some((hold) => committed.has(hold))) request.state = "charged";
  }

  /** Noticed at the next decision. */
  #disconnect(word: number): void {
    const waiting = this.#requests.filter(({ state }) => state === "waiting");
    const request = waiting[word % Math.max(1, waiting.length)];
    if (request) request.signal.aborted = true;
  }

  /** A request costs more than it holds. A budget may be exceeded so, which `check` does not allow. */
  async #extend(word: number): Promise<void> {
    const request = this.#openOne(word);
    if (request?.keyId !== PLAIN_KEY || request.holds.length !== 1) return;
    const more = request.holds[0]?.extend(BigInt(1 + ((word >>> 8) % 32)));
    if (!more) return;
    request.state = "ending";
    request.replica.settle();
    for (const one of this.#requests)
      if (one.replica === request.replica && one.state === "charged") one.state = "over";
    await more.secured?.catch(() => undefined);
    request.state = "open";
    if (more.amount > 0n) request.holds.push(more);
    else more.release();
  }

  #loseLease(replica: Replica): void {
    replica.loseLease();
    for (const request of this.#requests)
      if (request.replica === replica && request.state !== "waiting") request.state = "over";
  }

  #openOne(word: number): Request | undefined {
    const open = this.#requests.filter(({ state }) => state === "open");
    return open[word % Math.max(1, open.length)];
  }

  #replicaOf(word: number): Replica {
    const { replicas } = this.#database;
    return replicas[word % replicas.length] as Replica;
  }
}

function sumOf(requests: readonly Request[]): bigint {
  let sum = 0n;
  for (const { holds } of requests) for (const { amount } of holds) sum += amount;
  return sum;
}

/** Resolves when requests have their results, before any timer. */
async function told(): Promise<void> {
  for (let tick = 0; tick < 8; tick += 1) await Promise.resolve();
}
