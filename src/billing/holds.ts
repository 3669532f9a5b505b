import type { Clock } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import type {
  BatchPlanner,
  EndingRequest,
  GroupEffect,
  ReserveTarget,
  WriteError,
  Writer,
} from "../store/store.ts";
import { AccountBlocks } from "./accountBlocks.ts";
import type { BlockHold } from "./blockHold.ts";
import type { AmountRange } from "./cost.ts";
import type { HoldOwner, HoldRefusal, HoldResult, HoldWait } from "./hold.ts";
import { ReserveSweep } from "./reserveSweep.ts";

interface HoldsOptions {
  readonly writer: Writer;
  readonly clock: Clock;
  readonly random: Pick<Random, "fraction">;
  /** Throws if no request may be admitted now. Called before each decision. */
  refuse(): void;
  /** A number that grows with what commands change, where nobody calls `changed`. Read for each request that asks. */
  changes?(): number;
  /** No other replica serves from the database. */
  readonly isAlone: boolean;
}

/**
 * Owns every decision about money while a gateway serves. Each replica has a block of an account's money, reserved for it
 * alone in the database; a gateway on SQLite with one process is the only replica. A hold is taken from the block in memory, in the same turn
 * of the event loop as the decision, so no two requests share money. If the block does not cover it, the request waits
 * until the next batch has answered with a larger block, and is decided by the numbers of this answer. The budget of a
 * rotation chain has blocks in the same way.
 *
 * A command cannot take reserved money, so a change of an account does not concern its block. It may concern a budget: then
 * the next decision about the account's keys waits for a new answer, too.
 */
export class Holds implements BatchPlanner {
  readonly #options: HoldsOptions;
  #accounts = new Map<number, AccountBlocks>();
  /** Accounts that the next batch must plan. */
  readonly #due = new Set<AccountBlocks>();
  readonly #sweep: ReserveSweep<AccountBlocks>;
  /** The accounts of the batch that the writer has. */
  #planned: readonly AccountBlocks[] = [];
  /** What `changes` returned last. */
  #known: number | undefined;
  /** The write that has the next batch sent. Undefined: none is queued. */
  #queued: object | undefined;

  constructor(options: HoldsOptions) {
    this.#options = options;
    this.#sweep = new ReserveSweep(options.clock, (account) => this.#planNext(account));
    options.writer.planner = this;
  }

  /**
   * Holds as much of the range as the account and the key's budget can pay. Waits up to `hold_wait` for money that other
   * requests hold. Requests are served in the order of arrival. A request that needs less may pass one that needs more, and
   * a new request may pass those that wait if money has become free since they were last checked. Rejects with what the
   * gateway refuses requests with, and if the database cannot answer.
   */
  takeOrWait(
    holdWait: HoldWait,
    owner: HoldOwner,
    range: AmountRange,
  ): HoldResult | Promise<HoldResult> {
    this.#options.refuse();
    this.#hearChanges();
    return this.#account(owner.accountId).takeOrWait(holdWait, owner, range);
  }

  /**
   * The refusal of a request that needs at least `required`, if the account and the key's budget cannot pay that. It holds
   * nothing and asks nobody, so that it can come before a body is read. Undefined: `takeOrWait` decides.
   */
  refusalOf(
    { accountId, keyId }: Omit<HoldOwner, "requestId">,
    required: bigint,
  ): HoldRefusal | undefined {
    this.#hearChanges();
    return this.#accounts.get(accountId)?.refusalOf(keyId, required);
  }

  /** A redeemed voucher has credited the account. `refusalOf` knows it from the next request on. */
  credited(accountId: number): void {
    this.#accounts.get(accountId)?.forgetAnswer();
  }

  /** The sum of all open holds, in nano-roubles; 0 at rest. */
  total(): bigint {
    return this.#accounts.values().reduce((sum, { held }) => sum + held, 0n);
  }

  /** The accounts of which this replica has reserved money. */
  blocks(): number {
    return this.#accounts.values().reduce((sum, { reserved }) => sum + (reserved > 0n ? 1 : 0), 0);
  }

  /** The sum of the blocks of this replica, in nano-roubles. */
  reserved(): bigint {
    return this.#accounts.values().reduce((sum, { reserved }) => sum + reserved, 0n);
  }

  /** Another replica needs money of this account. The next batch lowers the blocks of this replica to what is held. */
  wanted(accountId: number): void {
    this.#accounts.get(accountId)?.wanted();
  }

  /** Another process has changed this account or one of its keys. Undefined: any account may have changed. */
  changed(accountId: number | undefined): void {
    if (accountId !== undefined) this.#accounts.get(accountId)?.changed();
    else for (const account of this.#accounts.values()) account.changed();
  }

  /**
   * The lease is lost, and the blocks with it. All holds are void: `secured` of each rejects, and its end or release changes
   * nothing. Waiting requests are rejected with what `refuse` throws. The writer commits no charge for such a hold.
   */
  reset(): void {
    const lost = this.#accounts;
    this.#accounts = new Map();
    this.#due.clear();
    this.#queued = undefined;
    this.#sweep.clear();
    const error = this.#refusal();
    for (const account of lost.values()) account.lose(error);
  }

  isVoid(holds: EndingRequest["holds"]): boolean {
    return (holds as readonly BlockHold[]).some(({ account }) => account.lost !== undefined);
  }

  planBatch(ending: readonly EndingRequest[]): readonly ReserveTarget[] {
    const planned = new Set(this.#due);
    for (const { holds, charge } of ending) {
      const [first] = holds as readonly [BlockHold];
      for (const { account, chain, amount } of holds as readonly BlockHold[]) {
        account.money.ending += amount;
        chain.money.ending += amount;
      }
      first.account.money.charging += charge;
      first.chain.money.charging += charge;
      const { lost, id } = first.account;
      if (lost === undefined) planned.add(this.#account(id));
    }
    this.#due.clear();
    this.#queued = undefined;
    this.#planned = [...planned];
    return this.#planned.flatMap((account) => account.plan() ?? []);
  }

  batchEnded(
    effects: readonly GroupEffect[],
    ended: readonly EndingRequest[],
    failure: WriteError | undefined,
    accountFailures?: ReadonlyMap<number, WriteError>,
  ): void {
    const planned = this.#planned.filter(({ lost }) => lost === undefined);
    this.#planned = [];
    // What a batch of an earlier lease tells is of blocks that are gone.
    const byId = new Map(planned.map((account) => [account.id, account]));
    for (const { accounts, chains } of effects) {
      for (const account of accounts) byId.get(account.accountId)?.apply(account);
      for (const chain of chains) byId.get(chain.accountId)?.applyChain(chain);
    }
    for (const { holds } of ended)
      for (const hold of holds as readonly BlockHold[]) {
        hold.end();
        byId.get(hold.account.id)?.charged();
      }
    for (const account of planned) {
      account.batchEnded(accountFailures?.get(account.id) ?? failure);
      if (account.hasReserve) this.#sweep.add(account);
    }
  }

  /** Lowers every reserve to what is held, with the last batch. The gateway stops. */
  close(): void {
    for (const account of this.#sweep.stop()) this.#due.add(account);
    if (this.#due.size > 0) this.#writeReserves();
  }

  #account(accountId: number): AccountBlocks {
    const known = this.#accounts.get(accountId);
    if (known) return known;
    const account = new AccountBlocks(accountId, {
      ...this.#options,
      onDue: () => this.#planNext(account),
    });
    this.#accounts.set(accountId, account);
    return account;
  }

  #hearChanges(): void {
    const count = this.#options.changes?.();
    if (count === this.#known) return;
    this.#known = count;
    this.changed(undefined);
  }

  #planNext(account: AccountBlocks): void {
    if (account.lost) return;
    this.#due.add(account);
    if (this.#queued === undefined) this.#writeReserves();
  }

  #writeReserves(): void {
    const queued = {};
    this.#queued = queued;
    this.#options.writer.write({ kind: "reserve" }).catch((error: unknown) => {
      // `batchEnded` tells the holds, unless the batch was never planned.
      if (this.#queued !== queued) return;
      this.#queued = undefined;
      const due = [...this.#due];
      this.#due.clear();
      for (const account of due) account.failed(error);
    });
  }

  #refusal(): unknown {
    try {
      this.#options.refuse();
    } catch (error) {
      return error;
    }
    return undefined;
  }
}
