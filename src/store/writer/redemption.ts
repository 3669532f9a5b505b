import { SPENDABLE_MAX } from "../tables/ledger.ts";
import { VOUCHER_REF } from "../tables/vouchers.ts";
import type { BatchMoney } from "./batchMoney.ts";

/** `voucherId` is the row of a voucher. `actor`: who redeems it, for the ledger. */
export interface Redemption {
  readonly voucherId: number;
  readonly accountId: number;
  readonly actor: string;
  readonly at: number;
}

/**
 * `applied`: the account was credited; `repeated`: it was credited before; `refused`: the voucher is revoked, expired or
 * redeemed by another account; `too_large`: the balance cannot take the amount.
 */
export type RedemptionOutcome = "applied" | "repeated" | "refused" | "too_large";

/** A voucher as a redemption finds it. */
export interface VoucherState {
  readonly publicId: string;
  readonly amount: bigint;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  readonly redeemedById: number | null;
}

/** The credit of a redemption in the ledger. */
interface PlannedCredit {
  readonly accountId: number;
  readonly seq: bigint;
  readonly amount: bigint;
  readonly balanceAfter: bigint;
  readonly ref: string;
  readonly actor: string;
  readonly at: number;
}

/** The end of a voucher. */
interface RedeemedVoucher {
  readonly id: number;
  readonly redeemedAt: number;
  readonly redeemedBy: number;
}

/** What a redemption finds: an open voucher, or one that has ended. What has ended stays so. */
export function redeemability(
  voucher: Pick<VoucherState, "expiresAt" | "revokedAt" | "redeemedById">,
  accountId: number,
  nowMs: number,
): "open" | "repeated" | "refused" {
  if (voucher.redeemedById !== null)
    return voucher.redeemedById === accountId ? "repeated" : "refused";
  const isExpired = voucher.expiresAt !== null && voucher.expiresAt <= nowMs;
  return voucher.revokedAt !== null || isExpired ? "refused" : "open";
}

/** The redemptions of a batch. Each credit follows from the one before it. */
export class Redemptions {
  readonly credits: PlannedCredit[] = [];
  readonly redeemed: RedeemedVoucher[] = [];
  readonly #money: BatchMoney;
  readonly #vouchers: Map<number, VoucherState>;

  constructor(money: BatchMoney, vouchers: ReadonlyMap<number, VoucherState>) {
    this.#money = money;
    this.#vouchers = new Map(vouchers);
  }

  redeem({ voucherId, accountId, actor, at }: Redemption): RedemptionOutcome {
    const voucher = this.#vouchers.get(voucherId);
    if (voucher === undefined) return "refused";
    const found = redeemability(voucher, accountId, at);
    if (found !== "open") return found;
    const account = this.#money.account(accountId);
    const { amount, publicId } = voucher;
    if (amount > SPENDABLE_MAX - account.balance - account.found.overdraft) return "too_large";
    account.balance += amount;
    account.seq += 1n;
    this.#vouchers.set(voucherId, { ...voucher, redeemedById: accountId });
    const { seq, balance: balanceAfter } = account;
    const ref = VOUCHER_REF + publicId;
    this.credits.push({ accountId, seq, amount, balanceAfter, ref, actor, at });
    this.redeemed.push({ id: voucherId, redeemedAt: at, redeemedBy: accountId });
    return "applied";
  }
}
