import {
  WriteError,
  type AccountEffect,
  type BatchPlanner,
  type ChainEffect,
  type EndingRequest,
  type GroupEffect,
  type ReserveTarget,
  type Writer,
} from "../../../src/store/store.ts";
import { same } from "./moneyModel.ts";

/** How the batch that was sent ends. `partly`: an operation is refused, and the disk is full from a later one on. */
export type BatchFate = "committed" | "refused" | "partly" | "full";

interface Account {
  balance: bigint;
  overdraft: bigint;
  reserved: bigint;
}

interface Chain {
  readonly accountId: number;
  budget: bigint | null;
  spent: bigint;
  /** The block of the budget. */
  reserved: bigint;
}

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
  reserves: readonly ReserveTarget[];
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
 * A SQLite database and its writer in the simplest form, for the holds of a gateway. A batch is sent, then it ends in the
 * database, and then the gateway is told. The history says when.
 */
export class HoldsDatabase {
  readonly accounts = new Map<number, Account>();
  readonly chains = new Map<number, Chain>();
  readonly #isEager: boolean;
  /** The change counter. */
  changes = 0;
  #waiting: Write[] = [];
  #sent: Sent | undefined;
  planner: BatchPlanner | undefined;

  /** `isEager`: a write is sent at once if no batch is in flight, as the real writer does. */
  constructor(isEager: boolean) {
    this.#isEager = isEager;
  }

  get writer(): Writer {
    return this as unknown as Writer;
  }

  /** The operations that are not sent yet. */
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
    const sent: Sent = { writes: this.#waiting.splice(0), reserves: [] };
    this.#sent = sent;
    const ending = sent.writes.flatMap((write) => write.ending ?? []);
    sent.reserves = this.planner?.planBatch(ending) ?? [];
  }

  /** The batch ends in the database. Returns the ids of the requests whose end was committed. */
  end(fate: BatchFate, word: number): readonly string[] {
    const sent = this.#sent;
    if (!sent || sent.outcome) return [];
    sent.outcome = this.#outcomeOf(sent, fate, word);
    const { failures } = sent.outcome;
    return sent.writes.flatMap(({ end }, at) => (end && !failures[at] ? [end.id] : []));
  }

  /** The gateway is told how the batch ended. Returns what it is told. */
  hear(): Pick<Outcome, "effects" | "reserveFailure"> {
    const { writes = [], outcome } = this.#sent ?? {};
    if (!outcome) throw new Error("no batch has ended");
    const { effects, failures, reserveFailure } = outcome;
    const ended = writes.flatMap(({ ending }, at) => (ending && !failures[at] ? [ending] : []));
    this.planner?.batchEnded(effects, ended, reserveFailure);
    this.#sent = undefined;
    if (this.#isEager) this.send();
    for (const [at, { reply }] of writes.entries()) {
      const failure = failures[at];
      if (failure) reply.reject(failure);
      else reply.resolve({});
    }
    return outcome;
  }

  // What commands do. Each returns false if it is refused.

  credit(accountId: number, amount: bigint): boolean {
    this.account(accountId).balance += amount;
    return this.#changed();
  }

  debit(accountId: number, amount: bigint): boolean {
    return amount <= this.available(accountId) && this.credit(accountId, -amount);
  }

  setOverdraft(accountId: number, overdraft: bigint): boolean {
    const account = this.account(accountId);
    if (account.balance + overdraft < account.reserved) return false;
    account.overdraft = overdraft;
    return this.#changed();
  }

  setBudget(firstKeyId: number, budget: bigint | null): boolean {
    this.chain(firstKeyId).budget = budget;
    return this.#changed();
  }

  refund(firstKeyId: number, amount: bigint): boolean {
    const chain = this.chain(firstKeyId);
    if (amount > chain.spent) return false;
    chain.spent -= amount;
    return this.credit(chain.accountId, amount);
  }

  available(accountId: number): bigint {
    const { balance, overdraft, reserved } = this.account(accountId);
    return balance + overdraft - reserved;
  }

  account(accountId: number): Account {
    const account = this.accounts.get(accountId);
    if (!account) throw new Error("no such account");
    return account;
  }

  chain(firstKeyId: number): Chain {
    const chain = this.chains.get(firstKeyId);
    if (!chain) throw new Error("no such key");
    return chain;
  }

  #changed(): boolean {
    this.changes += 1;
    return true;
  }

  #outcomeOf({ writes, reserves }: Sent, fate: BatchFate, word: number): Outcome {
    const full = new WriteError("full", "the disk is full");
    if (fate === "full")
      return { effects: [], failures: writes.map(() => full), reserveFailure: full };
    if (fate === "committed") {
      const effects = [this.#group(writes, reserves, false)];
      return { effects, failures: writes.map(() => undefined), reserveFailure: undefined };
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
    const chainIds = new Set<number>();
    for (const { end } of writes) {
      if (!end) continue;
      const { id, accountId, firstKeyId, charge } = end;
      const account = this.account(accountId);
      const chain = this.chain(firstKeyId);
      same(charge <= account.reserved, true, `${id} is charged from reserved money`);
      account.balance -= charge;
      account.reserved -= charge;
      chain.spent += charge;
      chain.reserved = chain.reserved > charge ? chain.reserved - charge : 0n;
      accountIds.add(accountId);
      chainIds.add(firstKeyId);
    }
    const reserve = (one: { reserved: bigint }, target: bigint, most: bigint): void => {
      const payable = target < most ? target : most;
      if (!onlyRaise || payable > one.reserved) one.reserved = payable;
    };
    for (const { accountId, reserved, chains = [] } of reserves) {
      const account = this.account(accountId);
      reserve(account, BigInt(reserved), account.balance + account.overdraft);
      accountIds.add(accountId);
      for (const { firstKeyId, reserved: target } of chains) {
        const chain = this.chain(firstKeyId);
        const left = (chain.budget ?? 0n) - chain.spent;
        const kept = left > chain.reserved ? left : chain.reserved;
        reserve(chain, BigInt(target), chain.budget === null ? 0n : kept);
        chainIds.add(firstKeyId);
      }
    }
    return {
      accounts: [...accountIds].map((id) => this.#accountEffect(id)),
      chains: [...chainIds].map((id) => this.#chainEffect(id)),
    };
  }

  #accountEffect(accountId: number): AccountEffect {
    const { balance, overdraft, reserved } = this.account(accountId);
    const amounts = { balance: String(balance), overdraft: String(overdraft) };
    return { accountId, ...amounts, reserved: String(reserved), others: 0 };
  }

  #chainEffect(firstKeyId: number): ChainEffect {
    const { accountId, budget, spent, reserved } = this.chain(firstKeyId);
    const amounts = { budget: budget === null ? null : String(budget), spent: String(spent) };
    return { accountId, firstKeyId, ...amounts, reserved: String(reserved), others: 0 };
  }
}
