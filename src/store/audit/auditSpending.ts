import type { AccessPaths, Connection } from "../connection.ts";
import type { Problems } from "./auditProgress.ts";
import { joinSum, splitSum } from "../usage/sums.ts";

/** The number of charges, and the amounts of charges and refunds, both positive. */
interface ChargeSums {
  charged: bigint;
  charge: bigint;
  refunded: bigint;
}

interface KeyTotals extends ChargeSums {
  account: bigint;
  key: bigint;
}

/** The second columns of sums, as in `splitSum`. */
interface Rests {
  chargedRest: bigint;
  chargeRest: bigint;
  refundedRest: bigint;
}

const TOTALS_BY_KEY = `SELECT key_id AS key, account_id AS account, ${splitSum("charged", "charged")},
    ${splitSum("charge", "charge")}, ${splitSum("refunded", "refunded")}
  FROM daily_totals GROUP BY 1, 2`;

/** The balance of each account, and the rows of its ledger that are no charges. Amounts are in two columns, as in `splitSum`. */
const otherRows = ({
  wholeTable,
}: AccessPaths): string => `SELECT a.id, a.name, a.balance, a.ledger_seq AS seq, coalesce(l.rows, 0) AS rows,
    coalesce(l.sum, 0) AS sum, coalesce(l."sumRest", 0) AS "sumRest",
    coalesce(l.refunded, 0) AS refunded, coalesce(l."refundedRest", 0) AS "refundedRest"
  FROM accounts a LEFT JOIN (SELECT account_id, count(*) AS rows, ${splitSum("amount", "sum")},
      ${splitSum("CASE WHEN kind = 'refund' THEN amount ELSE 0 END", "refunded")}
    FROM ${wholeTable("ledger")} WHERE kind <> 'charge' GROUP BY account_id) l ON l.account_id = a.id`;

interface AccountSums {
  id: bigint;
  name: string;
  balance: bigint;
  seq: bigint;
  rows: bigint;
  sum: bigint;
  sumRest: bigint;
  refunded: bigint;
  refundedRest: bigint;
}

/** Compares the daily totals with the ledger and with the spending of each key. */
export async function auditSpending(connection: Connection, problems: Problems): Promise<void> {
  const rows = await connection.rows<KeyTotals & Rests>(TOTALS_BY_KEY);
  const totals = rows.map(({ account, key, ...sums }) => ({
    account,
    key,
    charged: joinSum(sums.charged, sums.chargedRest),
    charge: joinSum(sums.charge, sums.chargeRest),
    refunded: joinSum(sums.refunded, sums.refundedRest),
  }));
  await compareWithLedger(connection, totals, problems);
  await compareWithKeys(connection, totals, problems);
}

/**
 * The totals count all charges of an account, of requests that are there or were folded. `auditLedger` proves that the
 * balance is the sum of all rows, so the rows that are no charges tell what the charges are.
 */
async function compareWithLedger(
  connection: Connection,
  totals: readonly KeyTotals[],
  problems: Problems,
): Promise<void> {
  const counted = new Map<bigint, ChargeSums>();
  for (const { account, charged, charge, refunded } of totals) {
    const sums = counted.get(account) ?? { charged: 0n, charge: 0n, refunded: 0n };
    counted.set(account, sums);
    sums.charged += charged;
    sums.charge += charge;
    sums.refunded += refunded;
  }
  await connection.forEach<AccountSums>(otherRows(connection.paths), {}, (account) => {
    const sums = counted.get(account.id);
    const charge = joinSum(account.sum, account.sumRest) - account.balance;
    if (
      account.seq - account.rows !== (sums?.charged ?? 0n) ||
      charge !== (sums?.charge ?? 0n) ||
      joinSum(account.refunded, account.refundedRest) !== (sums?.refunded ?? 0n)
    )
      problems.add(`account ${account.name}`, "charges and refunds are not what the totals count");
  });
}

/** The spending of a rotation chain is stored at its first key. */
async function compareWithKeys(
  connection: Connection,
  totals: readonly KeyTotals[],
  problems: Problems,
): Promise<void> {
  const spent = new Map<bigint, bigint>();
  for (const { key, charge, refunded } of totals)
    spent.set(key, (spent.get(key) ?? 0n) + charge - refunded);
  const keys = await connection.rows<{ id: bigint; first: bigint; name: string; spent: bigint }>(
    "SELECT id, coalesce(first_key_id, id) AS first, public_id AS name, spent FROM keys",
  );
  const byChain = new Map<bigint, bigint>();
  for (const { id, first } of keys)
    byChain.set(first, (byChain.get(first) ?? 0n) + (spent.get(id) ?? 0n));
  for (const key of keys) {
    const expected = key.id === key.first ? (byChain.get(key.id) ?? 0n) : 0n;
    if (key.spent !== expected)
      problems.add(`key ${key.name}`, "spent is not the sum of its requests");
  }
}
