import type { GroupAccount } from "../../writer/groupCharges.ts";
import { redeemability, type Redemption } from "../../writer/redemption.ts";
import type { WriteResult } from "../../writer/writerMessages.ts";
import { SPENDABLE_MAX } from "../../tables/ledger.ts";
import { VOUCHER_REF } from "../../tables/vouchers.ts";
import { arrayOf, statement, type Row, type Statement } from "./session.ts";

/** A voucher while a batch runs. */
interface Voucher {
  readonly publicId: string;
  readonly amount: bigint;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  redeemedById: number | null;
}

const LOCK =
  "SELECT id, public_id, amount, expires_at, revoked_at, redeemed_by FROM vouchers WHERE id = ANY($1::text::bigint[]) ORDER BY id FOR UPDATE";
const CREDIT =
  "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, actor, at) SELECT v.account_id, v.seq, 'credit', v.amount, v.balance_after, v.ref, v.actor, v.at FROM jsonb_to_recordset($1::text::jsonb) AS v(account_id bigint, seq bigint, amount bigint, balance_after bigint, ref text, actor text, at bigint)";
const END =
  "UPDATE vouchers SET redeemed_at = v.at, redeemed_by = v.account_id FROM jsonb_to_recordset($1::text::jsonb) AS v(id bigint, account_id bigint, at bigint) WHERE vouchers.id = v.id";

/** The redemptions of a batch: the credit in the ledger and the end of the voucher. */
export class Redemptions {
  readonly accountIds: readonly number[];
  readonly #redemptions: readonly Redemption[];
  readonly #vouchers = new Map<number, Voucher>();

  constructor(redemptions: readonly Redemption[]) {
    this.#redemptions = redemptions;
    this.accountIds = redemptions.map(({ accountId }) => accountId);
  }

  lock(): Statement {
    return statement(LOCK, arrayOf(this.#redemptions.map(({ voucherId }) => voucherId)));
  }

  read(rows: readonly Row[]): void {
    for (const row of rows)
      this.#vouchers.set(Number(row["id"]), {
        publicId: row["public_id"] as string,
        amount: row["amount"] as bigint,
        expiresAt: numberOrNull(row["expires_at"]),
        revokedAt: numberOrNull(row["revoked_at"]),
        redeemedById: numberOrNull(row["redeemed_by"]),
      });
  }

  /** Moves the balances of the accounts in memory. In the database a trigger moves them with the credit. */
  redeem(accountOf: (id: number) => GroupAccount): {
    readonly statements: readonly Statement[];
    readonly results: readonly WriteResult[];
  } {
    const statements: Statement[] = [];
    const results = this.#redemptions.map((redemption): WriteResult => {
      const { voucherId, accountId, actor, at } = redemption;
      const voucher = this.#vouchers.get(voucherId);
      if (voucher === undefined) return { redeemed: "refused" };
      const found = redeemability(voucher, accountId, at);
      if (found !== "open") return { redeemed: found };
      const account = accountOf(accountId);
      if (voucher.amount > SPENDABLE_MAX - account.balance - account.overdraft)
        return { redeemed: "too_large" };
      account.balance += voucher.amount;
      account.seq += 1n;
      voucher.redeemedById = accountId;
      const credit = {
        account_id: accountId,
        seq: String(account.seq),
        amount: String(voucher.amount),
        balance_after: String(account.balance),
        ref: VOUCHER_REF + voucher.publicId,
        actor,
        at,
      };
      statements.push(
        statement(CREDIT, JSON.stringify([credit])),
        statement(END, JSON.stringify([{ id: voucherId, account_id: accountId, at }])),
      );
      return { redeemed: "applied" };
    });
    return { statements, results };
  }
}

function numberOrNull(value: unknown): number | null {
  return value === null ? null : Number(value);
}
