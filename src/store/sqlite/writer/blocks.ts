import type { BatchPlan } from "../../writer/plan.ts";
import type { WireOperation } from "../../writer/writerMessages.ts";

/** What one replica has: money that it reserved, and rows of requests that run. */
export interface ReplicaBlocks {
  /** Its blocks of accounts, in nano-roubles. */
  readonly accounts: ReadonlyMap<number, bigint>;
  /** Its blocks of budgets, by first key. */
  readonly chains: ReadonlyMap<number, bigint>;
  /** The public ids of its requests that have a row and run. */
  readonly running: ReadonlySet<string>;
  /** What all other replicas have reserved of an account. */
  othersOfAccount(id: number): bigint;
  othersOfChain(firstKeyId: number): bigint;
  /** The replica has these blocks from now on. Returns what takes them back, for a transaction that fails. */
  take(blocks: BatchPlan["blocks"]): () => void;
  /** A batch of the replica is committed. */
  committed(operations: readonly WireOperation[]): void;
}

/**
 * The blocks of the replicas that write to a SQLite file: the gateway itself, or its serving processes. They are in memory,
 * because they end with the process that writes. The sum of the blocks of an account is `accounts.reserved`.
 */
export class Blocks {
  readonly #replicas = new Map<number, Replica>();

  of(replica: number): ReplicaBlocks {
    let found = this.#replicas.get(replica);
    if (found === undefined) {
      found = new Replica(this.#replicas);
      this.#replicas.set(replica, found);
    }
    return found;
  }

  /** The replica has ended. */
  end(replica: number): void {
    this.#replicas.delete(replica);
  }
}

class Replica implements ReplicaBlocks {
  readonly accounts = new Map<number, bigint>();
  readonly chains = new Map<number, bigint>();
  readonly running = new Set<string>();
  readonly #all: ReadonlyMap<number, Replica>;

  constructor(all: ReadonlyMap<number, Replica>) {
    this.#all = all;
  }

  othersOfAccount(id: number): bigint {
    return this.#ofOthers(({ accounts }) => accounts.get(id));
  }

  othersOfChain(firstKeyId: number): bigint {
    return this.#ofOthers(({ chains }) => chains.get(firstKeyId));
  }

  take(blocks: BatchPlan["blocks"]): () => void {
    const before = blocks.map((block) => ({ ...block, amount: this.#set(block) }));
    return () => before.forEach((block) => this.#set(block));
  }

  committed(operations: readonly WireOperation[]): void {
    for (const operation of operations) {
      if (operation.kind !== "recordRequest") continue;
      const { row, mayHaveRow } = operation.record;
      if (row.status === "running") this.running.add(row.publicId);
      else if (mayHaveRow) this.running.delete(row.publicId);
    }
  }

  /** Returns what the block was before. */
  #set({ accountId, keyId, amount }: BatchPlan["blocks"][number]): bigint {
    const [map, id] = keyId === 0 ? [this.accounts, accountId] : [this.chains, keyId];
    const before = map.get(id) ?? 0n;
    if (amount === 0n) map.delete(id);
    else map.set(id, amount);
    return before;
  }

  #ofOthers(of: (replica: Replica) => bigint | undefined): bigint {
    let sum = 0n;
    for (const replica of this.#all.values()) if (replica !== this) sum += of(replica) ?? 0n;
    return sum;
  }
}
