import { Holds } from "../../../src/billing/holds.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { systemRandom } from "../../../src/lib/random.ts";
import {
  WriteError,
  type BatchPlanner,
  type ChainEffect,
  type EndingRequest,
  type GroupEffect,
  type ReserveTarget,
  type Writer,
} from "../../../src/store/store.ts";
import { same } from "./moneyModel.ts";

export const ACCOUNT = 1;
/** The keys of the account, each its own chain. The first has no budget. */
export const PLAIN_KEY = 1;
export const BUDGET_KEY = 2;

/** A request that is decided asks for a few batches. */
const ROUNDS_MAX = 1000;

interface Chain {
  budget: bigint | null;
  spent: bigint;
  readonly blocks: Map<Replica, bigint>;
}

interface Write {
  /** The end of a request, with its charge. */
  readonly end: (EndingRequest & { readonly keyId: number }) | undefined;
  readonly reply: PromiseWithResolvers<object>;
}

interface Sent {
  readonly writes: readonly Write[];
  targets: readonly ReserveTarget[];
  effects?: readonly GroupEffect[];
  failure?: WriteError;
}

/**
 * One account in the simplest form, and the replicas that share its money. They are told of changes by commands, as on a
 * PostgreSQL server, or read a counter of them, as serving processes do on a SQLite file.
 */
export class ReplicaDatabase {
  balance: bigint;
  overdraft = 0n;
  readonly blocks = new Map<Replica, bigint>();
  readonly chains = new Map<number, Chain>();
  readonly replicas: readonly Replica[];
  batches = 0;
  /** Counts changes by commands. Undefined: the replicas are told. */
  changes: number | undefined;

  /** `delayMs`: how long a batch of a replica takes, twice. Undefined: the test says when. */
  constructor(
    options: { balance: bigint; budget?: bigint; replicas: number; areChangesCounted?: boolean },
    delayMs?: () => number,
  ) {
    this.balance = options.balance;
    if (options.areChangesCounted) this.changes = 0;
    this.chains.set(PLAIN_KEY, { budget: null, spent: 0n, blocks: new Map() });
    const budget = options.budget ?? null;
    this.chains.set(BUDGET_KEY, { budget, spent: 0n, blocks: new Map() });
    this.replicas = Array.from({ length: options.replicas }, () => new Replica(this, delayMs));
  }

  get spendable(): bigint {
    return this.balance + this.overdraft;
  }

  get reserved(): bigint {
    return sumOf(this.blocks);
  }

  chain(keyId: number): Chain {
    const chain = this.chains.get(keyId);
    if (!chain) throw new Error("no such key");
    return chain;
  }

  /** A command. It returns false if the reserved money refuses it. */
  credit(amount: bigint): boolean {
    if (this.spendable + amount < this.reserved) return false;
    this.balance += amount;
    this.#changed();
    return true;
  }

  setBudget(budget: bigint | null): void {
    this.chain(BUDGET_KEY).budget = budget;
    this.#changed();
  }

  #changed(): void {
    if (this.changes !== undefined) this.changes += 1;
    else for (const { holds } of this.replicas) holds.changed(ACCOUNT);
  }

  /** One transaction of a replica. */
  commit(replica: Replica, { writes, targets }: Sent): readonly GroupEffect[] {
    this.batches += 1;
    const keyIds = new Set<number>();
    for (const { end } of writes) {
      if (!end) continue;
      const block = this.blocks.get(replica) ?? 0n;
      same(end.charge <= block, true, "a charge is paid from the block of its replica");
      this.blocks.set(replica, block - end.charge);
      this.balance -= end.charge;
      const chain = this.chain(end.keyId);
      chain.spent += end.charge;
      const left = (chain.blocks.get(replica) ?? 0n) - end.charge;
      chain.blocks.set(replica, left > 0n ? left : 0n);
      keyIds.add(end.keyId);
    }
    for (const { reserved, chains = [] } of targets) {
      let isMet = this.#reserve(replica, this.blocks, BigInt(reserved), this.spendable);
      for (const { firstKeyId, reserved: wanted } of chains) {
        const { budget, spent, blocks } = this.chain(firstKeyId);
        keyIds.add(firstKeyId);
        if (budget === null) blocks.set(replica, 0n);
        else if (!this.#reserve(replica, blocks, BigInt(wanted), budget - spent)) isMet = false;
      }
      if (isMet) continue;
      for (const other of this.replicas) if (other !== replica) other.tellWanted();
    }
    return [this.#effectFor(replica, keyIds)];
  }

  /** Returns false if others have reserved what is lacking. */
  #reserve(replica: Replica, blocks: Map<Replica, bigint>, target: bigint, money: bigint): boolean {
    const before = blocks.get(replica) ?? 0n;
    blocks.delete(replica);
    const others = sumOf(blocks);
    const left = money > others ? money - others : 0n;
    const kept = before > left ? before : left;
    blocks.set(replica, target < kept ? target : kept);
    return target <= left || others === 0n;
  }

  #effectFor(replica: Replica, keyIds: ReadonlySet<number>): GroupEffect {
    const blockOf = (blocks: ReadonlyMap<Replica, bigint>) => {
      const reserved = blocks.get(replica) ?? 0n;
      return { reserved: String(reserved), others: String(sumOf(blocks) - reserved) };
    };
    const chains: ChainEffect[] = [];
    for (const firstKeyId of keyIds) {
      const chain = this.chain(firstKeyId);
      const budget = chain.budget === null ? null : String(chain.budget);
      const numbers = { spent: String(chain.spent), budget, ...blockOf(chain.blocks) };
      chains.push({ accountId: ACCOUNT, firstKeyId, ...numbers });
    }
    const money = { balance: String(this.balance), overdraft: String(this.overdraft) };
    return {
      accounts: [{ accountId: ACCOUNT, ...money, ...blockOf(this.blocks) }],
      chains,
    };
  }
}

/** A replica with its holds and its writer. */
export class Replica {
  readonly holds: Holds;
  planner: BatchPlanner | undefined;
  /** Thrown instead of any decision. */
  refusal: Error | undefined;
  /** Another replica needs money; a test without delays tells it with `hearWanted`. */
  isWanted = false;
  readonly #database: ReplicaDatabase;
  readonly #delayMs: (() => number) | undefined;
  #waiting: Write[] = [];
  #sent: Sent | undefined;
  #isRunning = false;

  constructor(database: ReplicaDatabase, delayMs: (() => number) | undefined) {
    this.#database = database;
    this.#delayMs = delayMs;
    this.holds = new Holds({
      writer: this as unknown as Writer,
      clock: systemClock,
      random: systemRandom,
      isAlone: false,
      ...(database.changes !== undefined && { changes: () => database.changes ?? 0 }),
      refuse: () => {
        if (this.refusal) throw this.refusal;
      },
    });
  }

  get isBusy(): boolean {
    return this.#waiting.length > 0 || this.#sent !== undefined;
  }

  write(): Promise<object> {
    return this.#enqueue(undefined);
  }

  /** Writes the end of a request. */
  end(keyId: number, charge: bigint, holds: readonly object[]): Promise<object> {
    return this.#enqueue({ keyId, charge, holds });
  }

  tellWanted(): void {
    this.isWanted = true;
    if (this.#delayMs) setTimeout(() => this.hearWanted(), this.#delayMs());
  }

  hearWanted(): void {
    if (this.isWanted) this.holds.wanted(ACCOUNT);
    this.isWanted = false;
  }

  /** Sends what is queued as one batch, unless one is in flight. */
  send(): void {
    if (this.#sent || this.#waiting.length === 0) return;
    const sent: Sent = { writes: this.#waiting.splice(0), targets: [] };
    this.#sent = sent;
    sent.targets = this.planner?.planBatch(sent.writes.flatMap(({ end }) => end ?? [])) ?? [];
  }

  /** The batch ends in the database. With a failure nothing is committed. Returns the holds of committed ends. */
  commit(failure?: WriteError): readonly object[] {
    const sent = this.#sent;
    if (!sent || sent.effects) return [];
    if (failure) sent.failure = failure;
    sent.effects = failure ? [] : this.#database.commit(this, sent);
    return failure ? [] : sent.writes.flatMap(({ end }) => end?.holds ?? []);
  }

  /** The replica is told how the batch ended. */
  hear(): void {
    const { writes = [], effects, failure } = this.#sent ?? {};
    if (!effects) return;
    this.#sent = undefined;
    const ended = failure ? [] : writes.flatMap(({ end }) => end ?? []);
    this.planner?.batchEnded(effects, ended, failure);
    for (const { reply } of writes) {
      if (failure) reply.reject(failure);
      else reply.resolve({});
    }
  }

  /** Its lease is ended. What is not committed yet never will be. */
  loseLease(): void {
    const fenced = new WriteError("refused", "fenced");
    this.#database.blocks.delete(this);
    for (const { blocks } of this.#database.chains.values()) blocks.delete(this);
    for (const { reply } of this.#waiting.splice(0)) reply.reject(fenced);
    this.commit(fenced);
    this.refusal = fenced;
    this.holds.reset();
    this.refusal = undefined;
  }

  /** Gives all blocks back. */
  stop(): void {
    this.holds.close();
    this.settle();
  }

  /** Sends, commits and hears until nothing is queued. */
  settle(): void {
    for (let rounds = 0; this.isBusy; rounds += 1) {
      same(rounds < ROUNDS_MAX, true, "the batches of a replica come to an end");
      this.send();
      this.commit();
      this.hear();
    }
  }

  #enqueue(end: Write["end"]): Promise<object> {
    const reply = Promise.withResolvers<object>();
    this.#waiting.push({ end, reply });
    if (this.#delayMs) void this.#run(this.#delayMs);
    return reply.promise;
  }

  async #run(delayMs: () => number): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (this.isBusy) {
      await Bun.sleep(delayMs());
      this.send();
      this.commit();
      await Bun.sleep(delayMs());
      this.hear();
    }
    this.#isRunning = false;
  }
}

function sumOf(blocks: ReadonlyMap<Replica, bigint>): bigint {
  return blocks.values().reduce((sum, block) => sum + block, 0n);
}
