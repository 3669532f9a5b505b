import type { AccountFunds, ChainFunds, FundsTable } from "../../../src/store/open.ts";
import {
  WriteError,
  type BatchPlanner,
  type ChangeCounter,
  type EndingRequest,
  type GroupEffect,
  type ReserveTarget,
  type Writer,
} from "../../../src/store/store.ts";
import { same } from "./moneyModel.ts";

/** How the batch that was sent ends. `partly`: an operation is refused, and the disk is full from a later one on. */
export type BatchFate = "committed" | "refused" | "partly" | "full";

interface Write {
  /** Undefined: only the reserves change. */
  readonly end: EndedRequest | undefined;
  readonly ending: EndingRequest | undefined;
  readonly reply: PromiseWithResolvers<object>;
}

interface EndedRequest {
  readonly id: string;
  readonly accountId: number;
  readonly firstKeyId: number;
  readonly charge: bigint;
}

interface Sent {
  readonly writes: readonly Write[];
  readonly reserves: readonly ReserveTarget[];
  /** What was committed, once the batch has ended in the database. */
  outcome?: Outcome;
}

interface Outcome {
  readonly effects: readonly GroupEffect[];
  /** The failure of each write; undefined: it was committed. */
  readonly failures: readonly (WriteError | undefined)[];
  /** Why the reserves were not committed. */
  readonly reserveFailure: WriteError | undefined;
}

/**
 * A database and its writer in the simplest form, for the holds of a gateway. A batch is sent, then it ends in the
 * database, and then the gateway is told. The history says when.
 */
export class HoldsDatabase implements FundsTable, ChangeCounter {
  readonly accounts = new Map<number, AccountFunds & { reserved: bigint }>();
  readonly chains = new Map<number, ChainFunds>();
  readonly #ended = new Set<string>();
  readonly #isEager: boolean;
  readonly #onRead: (accountId: number) => void;
  #changes = 0;
  #waiting: Write[] = [];
  #sent: Sent | undefined;
  planner: BatchPlanner | undefined;

  /**
   * `isEager`: a write is sent at once if no batch is in flight, as the real writer does. `onRead`: the gateway has read an
   * account.
   */
  constructor(isEager: boolean, onRead: (accountId: number) => void) {
    this.#isEager = isEager;
    this.#onRead = onRead;
  }

  get writer(): Writer {
    return this as unknown as Writer;
  }

  /** The operations that are not committed yet. */
  get queued(): number {
    return this.#waiting.length;
  }

  get isSent(): boolean {
    return this.#sent !== undefined;
  }

  /** The batch has ended in the database, and the gateway does not know it yet. */
  get isUnheard(): boolean {
    return this.#sent?.outcome !== undefined;
  }

  write(operation: { kind: string }): Promise<object> {
    return this.writeWithin(operation);
  }

  writeWithin(
    operation: { kind: string; record?: { publicId: string } & Omit<EndedRequest, "id"> },
    holds?: EndingRequest["holds"],
  ): Promise<object> {
    const { record } = operation;
    const end = record && { ...record, id: record.publicId };
    const ending = holds && { charge: end?.charge ?? 0n, holds };
    const reply = Promise.withResolvers<object>();
    this.#waiting.push({ end, ending, reply });
    if (this.#isEager) this.send();
    return reply.promise;
  }

  /** Sends all that waits as one batch, unless one is in flight. */
  send(): void {
    if (this.#sent || this.#waiting.length === 0) return;
    const writes = this.#waiting.splice(0);
    const sent = { writes, reserves: [] as readonly ReserveTarget[] };
    // The planner may look at the batch in flight.
    this.#sent = sent;
    const ending = writes.flatMap((write) => write.ending ?? []);
    sent.reserves = this.planner?.planBatch(ending) ?? [];
  }

  /** The batch ends in the database. Returns the ids of the requests whose end was committed. */
  end(fate: BatchFate, word: number): readonly string[] {
    const sent = this.#sent;
    if (!sent || sent.outcome) return [];
    sent.outcome = this.#outcomeOf(sent, fate, word);
    const { failures } = sent.outcome;
    const ids = sent.writes.flatMap(({ end }, at) => (end && !failures[at] ? [end.id] : []));
    for (const id of ids) this.#ended.add(id);
    return ids;
  }

  /** The gateway is told how the batch ended. */
  hear(): void {
    const { writes = [], outcome } = this.#sent ?? {};
    if (!outcome) return;
    const { effects, failures, reserveFailure } = outcome;
    this.#sent = undefined;
    const ended = writes.flatMap(({ ending }, at) => (ending && !failures[at] ? [ending] : []));
    this.planner?.batchEnded(effects, ended, reserveFailure);
    if (this.#isEager) this.send();
    for (const [at, { reply }] of writes.entries()) {
      const failure = failures[at];
      if (failure) reply.reject(failure);
      else reply.resolve({});
    }
  }

  // What commands do. Each returns false if it is refused.

  credit(accountId: number, amount: bigint): boolean {
    const account = this.#account(accountId);
    account.balance += amount;
    account.seq += 1;
    return this.#changed();
  }

  debit(accountId: number, amount: bigint): boolean {
    return amount <= this.available(accountId) && this.credit(accountId, -amount);
  }

  setOverdraft(accountId: number, overdraft: bigint): boolean {
    const account = this.#account(accountId);
    if (account.balance + overdraft < account.reserved) return false;
    account.overdraft = overdraft;
    return this.#changed();
  }

  setBudget(firstKeyId: number, budget: bigint | null): boolean {
    this.chain(firstKeyId).budget = budget;
    return this.#changed();
  }

  refund(accountId: number, firstKeyId: number, amount: bigint): boolean {
    const chain = this.chain(firstKeyId);
    if (amount > chain.spent) return false;
    chain.spent -= amount;
    return this.credit(accountId, amount);
  }

  available(accountId: number): bigint {
    const { balance, overdraft, reserved } = this.#account(accountId);
    return balance + overdraft - reserved;
  }

  // What the gateway reads.

  read(): number {
    return this.#changes;
  }

  current(): number {
    return this.read();
  }

  account(accountId: number): AccountFunds {
    this.#onRead(accountId);
    return { ...this.#account(accountId) };
  }

  chain(firstKeyId: number): ChainFunds {
    const chain = this.chains.get(firstKeyId);
    if (!chain) throw new Error("no such key");
    return chain;
  }

  ended(requestIds: readonly string[]): readonly string[] {
    return requestIds.filter((id) => this.#ended.has(id));
  }

  inSnapshot<T>(read: () => T): T {
    return read();
  }

  #account(accountId: number): AccountFunds & { reserved: bigint } {
    const account = this.accounts.get(accountId);
    if (!account) throw new Error("no such account");
    return account;
  }

  #changed(): boolean {
    this.#changes += 1;
    return true;
  }

  #outcomeOf({ writes, reserves }: Sent, fate: BatchFate, word: number): Outcome {
    const full = new WriteError("full", "the disk is full");
    if (fate === "full")
      return { effects: [], failures: writes.map(() => full), reserveFailure: full };
    if (fate === "committed") {
      const effect = this.#group(writes, reserves, false);
      return {
        effects: [effect],
        failures: writes.map(() => undefined),
        reserveFailure: undefined,
      };
    }
    // Each one alone. From `fullFrom` on the disk is full.
    const refused = word % writes.length;
    const fullFrom = fate === "partly" ? (word >>> 4) % (writes.length + 1) : Infinity;
    const effects: GroupEffect[] = [];
    const failures = writes.map((write, at) => {
      if (at >= fullFrom) return full;
      if (at === refused) return new WriteError("refused", "a constraint");
      effects.push(this.#group([write], [], false));
      return undefined;
    });
    const isFull = fullFrom <= writes.length;
    if (!isFull) effects.push(this.#group([], reserves, true));
    return { effects, failures, reserveFailure: isFull ? full : undefined };
  }

  #group(
    writes: readonly Write[],
    reserves: readonly ReserveTarget[],
    onlyRaise: boolean,
  ): GroupEffect {
    const accountIds = new Set<number>();
    const chains = new Map<number, number>();
    for (const { end } of writes) {
      if (!end) continue;
      const account = this.#account(end.accountId);
      same(end.charge <= account.reserved, true, `${end.id} is charged from reserved money`);
      account.balance -= end.charge;
      account.reserved -= end.charge;
      account.seq += 1;
      this.chain(end.firstKeyId).spent += end.charge;
      accountIds.add(end.accountId);
      chains.set(end.firstKeyId, end.accountId);
    }
    for (const { accountId, reserved } of reserves) {
      const account = this.#account(accountId);
      const free = account.balance + account.overdraft;
      const payable = BigInt(reserved) < free ? BigInt(reserved) : free;
      if (!onlyRaise || payable > account.reserved) account.reserved = payable;
      accountIds.add(accountId);
    }
    return {
      accounts: [...accountIds].map((accountId) => {
        const { seq, balance, overdraft, reserved } = this.#account(accountId);
        return {
          accountId,
          seq,
          balance: String(balance),
          overdraft: String(overdraft),
          reserved: String(reserved),
        };
      }),
      chains: [...chains].map(([firstKeyId, accountId]) => {
        const { spent } = this.chain(firstKeyId);
        return { accountId, firstKeyId, spent: String(spent) };
      }),
    };
  }
}
