import { isoTime } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { Actor } from "../schema/schema.ts";
import { StoreError } from "../storeError.ts";
import type { NewVoucher, VoucherRow, VoucherTable } from "../tables/vouchers.ts";

/** The vouchers of one command. All have the same amount, note and expiry. */
export interface NewVouchers extends Pick<NewVoucher, "amount" | "note" | "expiresAt"> {
  readonly codes: readonly Pick<NewVoucher, "publicId" | "hash" | "prefix">[];
}

/** `applied` is false if the voucher was revoked before. */
export interface Revoked {
  voucher: VoucherRow;
  applied: boolean;
}

/**
 * Revokes a voucher, so that no account can redeem it. Runs in the caller's transaction. Throws StoreError for a redeemed
 * one.
 */
export async function revokeVoucher(
  vouchers: VoucherTable,
  actor: Actor,
  publicId: string,
): Promise<Revoked> {
  const { id, redeemedBy, redeemedAt, amount } = await vouchers.lockOrThrow(publicId);
  if (redeemedBy !== null) {
    const roubles = formatRoubles(amount);
    throw new StoreError(
      `voucher ${publicId} was redeemed by account ${JSON.stringify(redeemedBy)} at ${isoTime(redeemedAt ?? 0)}: tollgate balance debit ${redeemedBy} ${roubles} takes the money back`,
    );
  }
  const applied = await vouchers.revoke(id, actor.at);
  return { voucher: await vouchers.findOrThrow(publicId), applied };
}

/** For the admin log. The note is in the row of the voucher. */
export function voucherDetail({ amount, expiresAt }: NewVouchers): string {
  const expiry = expiresAt === null ? "" : `, expires ${isoTime(expiresAt)}`;
  return formatRoubles(amount) + expiry;
}
