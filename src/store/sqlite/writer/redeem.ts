import { eq } from "drizzle-orm";
import { lazy } from "../../../lib/lazy.ts";
import { vouchers } from "../../schema/schema.ts";
import type { SqliteConnection } from "../sqlite.ts";
import { StoreError } from "../../storeError.ts";
import { redeemability, type Redemption, type RedemptionOutcome } from "../../writer/redemption.ts";
import { runSync } from "../../steps.ts";
import { ledgerTable } from "../../tables/ledger.ts";
import { VOUCHER_REF } from "../../tables/vouchers.ts";

/**
 * Redeems a voucher: the credit in the ledger and the end of the voucher, in the caller's transaction. Runs before the
 * requests of a batch, because a group remembers the accounts that it has read.
 */
export function prepareRedeem(
  connection: SqliteConnection,
): (redemption: Redemption) => RedemptionOutcome {
  const { db } = connection;
  const ledger = lazy(() => ledgerTable(connection.queries));
  return ({ voucherId, accountId, actor, at }) => {
    const voucher = db
      .select({
        publicId: vouchers.publicId,
        amount: vouchers.amount,
        expiresAt: vouchers.expiresAt,
        revokedAt: vouchers.revokedAt,
        redeemedById: vouchers.redeemedBy,
      })
      .from(vouchers)
      .where(eq(vouchers.id, voucherId))
      .get();
    if (voucher === undefined) return "refused";
    const found = redeemability(voucher, accountId, at);
    if (found !== "open") return found;
    const { publicId, amount } = voucher;
    const ref = VOUCHER_REF + publicId;
    try {
      const entry = { accountId, amount, ref, actor, at, note: null, refundOf: null };
      runSync(ledger().append({ ...entry, kind: "credit" }));
    } catch (error) {
      // `append` throws it before it writes.
      if (error instanceof StoreError) return "too_large";
      throw error;
    }
    db.update(vouchers)
      .set({ redeemedAt: at, redeemedBy: accountId })
      .where(eq(vouchers.id, voucherId))
      .run();
    return "applied";
  };
}
