import type { Clock } from "../lib/clock.ts";
import type { SqliteStore } from "../store/open.ts";
import {
  amountToWire,
  type BatchPlanner,
  type EndingRequest,
  type GroupEffect,
  type ReserveTarget,
  type WriteError,
  type Writer,
} from "../store/store.ts";
import { AccountMoney, type HeldMoney } from "./accountMoney.ts";
import type { AmountRange } from "./cost.ts";
import type { HoldOwner, HoldRefusal, HoldResult, Holds, HoldWait } from "./hold.ts";
import { ReserveSweep } from "./reserveSweep.ts";

interface HoldsOptions {
  readonly store: Pick<SqliteStore, "funds" | "changes">;
  readonly writer: Writer;
  readonly clock: Clock;
  /** Throws if no request may be admitted now. Called before each decision. */
  refuse(): void;
}

/**
 * The holds of a gateway that serves its SQLite database alone. It owns every decision about money and keeps the money of the accounts in memory and adds each
 * hold in the same turn of the event loop as it decides, so no two requests share money.
 *
 * What another process changes counts at the next decision: the change counter tells when to read an account again.
 * What the writer committed comes back with its reply. In the same step the holds of the committed requests are released.
 *
 * Holds are in memory only. The database has the reserve of each account instead, of which holds are a part: the sum of
 * the secured holds is never more than the reserve, and the reserve is never more than the account can pay. It is raised
 * in large steps, so most holds are secured at once.
 */
export class LocalHolds implements Holds, BatchPlanner {
  readonly #options: HoldsOptions;
  readonly #accounts = new Map<number, AccountMoney>();
  /** Accounts whose reserve must change with the next batch. */
  readonly #due = new Set<AccountMoney>();
  readonly #sweep: ReserveSweep<AccountMoney>;
  /** The accounts and holds of the batch that the writer has. */
  #planned: readonly AccountMoney[] = [];
  #ending: readonly HeldMoney[] = [];
  #isReserveQueued = false;

  constructor(options: HoldsOptions) {
    this.#options = options;
    this.#sweep = new ReserveSweep(options.clock, (account) => this.#requestReserve(account));
    options.writer.planner = this;
  }

  /** Holds as much of the range as the account and the key's budget can pay now. */
  take(owner: HoldOwner, range: AmountRange): HoldResult {
    return this.#account(owner.accountId).take(owner, range);
  }

  takeOrWait(
    holdWait: HoldWait,
    owner: HoldOwner,
    range: AmountRange,
  ): HoldResult | Promise<HoldResult> {
    return this.#account(owner.accountId).takeOrWait(holdWait, owner, range);
  }

  refusalOf(
    { accountId, keyId }: Omit<HoldOwner, "requestId">,
    required: bigint,
  ): HoldRefusal | undefined {
    return this.#account(accountId).refusalOf(keyId, required);
  }

  credited(): void {
    // The change counter tells it.
  }

  total(): bigint {
    return this.#accounts.values().reduce((sum, { held }) => sum + held, 0n);
  }

  /** The next batch is about to be sent. Returns the reserves to commit with it. */
  planBatch(ending: readonly EndingRequest[]): readonly ReserveTarget[] {
    const planned = new Set(this.#due);
    const holds: HeldMoney[] = [];
    for (const request of ending) {
      for (const hold of request.holds as readonly HeldMoney[]) {
        hold.account.ending += hold.amount;
        holds.push(hold);
      }
      const [{ account }] = request.holds as readonly [HeldMoney];
      account.charging += request.charge;
      planned.add(account);
    }
    this.#due.clear();
    this.#isReserveQueued = false;
    this.#planned = [...planned];
    this.#ending = holds;
    const targets: ReserveTarget[] = [];
    for (const account of this.#planned) {
      const target = account.planReserve();
      if (target !== undefined)
        targets.push({ accountId: account.id, reserved: amountToWire(target) });
    }
    return targets;
  }

  /**
   * The batch has ended. `effects` is what was committed. `ended`: the requests whose end was. `failure`: why the reserves
   * were not.
   */
  batchEnded(
    effects: readonly GroupEffect[],
    ended: readonly EndingRequest[],
    failure: WriteError | undefined,
  ): void {
    for (const { accounts, chains } of effects) {
      // Chains come first: `applyChain` compares with the account's number before this effect.
      for (const chain of chains) this.#accounts.get(chain.accountId)?.applyChain(chain, accounts);
      for (const account of accounts) this.#accounts.get(account.accountId)?.apply(account);
    }
    for (const { holds } of ended) for (const hold of holds as readonly HeldMoney[]) hold.end();
    const planned = this.#planned;
    this.#planned = [];
    this.#ending = [];
    for (const account of planned) {
      account.batchEnded(failure);
      if (account.hasReserve) this.#sweep.add(account);
    }
    for (const account of planned) {
      if (account.hasUnsecured) this.#requestReserve(account);
      account.decideAgain();
    }
  }

  close(): void {
    for (const account of this.#sweep.stop()) this.#due.add(account);
    if (this.#due.size > 0) this.#writeReserves();
  }

  #account(accountId: number): AccountMoney {
    const known = this.#accounts.get(accountId);
    if (known) return known;
    const account = new AccountMoney(accountId, {
      ...this.#options,
      onUnsecured: () => this.#requestReserve(account),
      endingHolds: () => this.#ending.filter((hold) => hold.account === account),
    });
    this.#accounts.set(accountId, account);
    return account;
  }

  /** The reserve is committed with the next batch. */
  #requestReserve(account: AccountMoney): void {
    this.#due.add(account);
    if (this.#isReserveQueued) return;
    this.#isReserveQueued = true;
    this.#writeReserves();
  }

  #writeReserves(): void {
    // `batchEnded` tells the holds.
    this.#options.writer.write({ kind: "reserve" }).catch(() => undefined);
  }
}
