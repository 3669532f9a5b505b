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

/** A voucher as a redemption sees it. */
interface RedeemableVoucher {
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  readonly redeemedById: number | null;
}

/** What a redemption finds: an open voucher, or one that has ended. What has ended stays so. */
export function redeemability(
  voucher: RedeemableVoucher,
  accountId: number,
  nowMs: number,
): "open" | "repeated" | "refused" {
  if (voucher.redeemedById !== null)
    return voucher.redeemedById === accountId ? "repeated" : "refused";
  const isExpired = voucher.expiresAt !== null && voucher.expiresAt <= nowMs;
  return voucher.revokedAt !== null || isExpired ? "refused" : "open";
}
