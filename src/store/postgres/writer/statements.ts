import {
  accounts,
  attempts,
  cappedSums,
  columnsOf,
  creditColumns,
  dailyFigures,
  dailyTotals,
  endColumns,
  INT64_MAX,
  ledger,
  requestColumns,
  requestFigures,
  requests,
  responseOwner,
  totalGroup,
  totalSums,
} from "../../schema/schema.ts";

/** Rows for a statement, as JSON. */
export function jsonOf(rows: readonly unknown[]): string {
  return JSON.stringify(rows, (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
}

/** A table as a row source: `json_to_recordset` needs the type of each column. */
interface ColumnLike {
  readonly name: string;
  getSQLType(): string;
}

/** The rows of a JSON array as a relation `v`, with their names in the code. An integer may be a number or decimal digits. */
function rowsOf(columns: Readonly<Record<string, "bigint" | "text">>): string {
  const list = Object.entries(columns).map(([name, type]) => `"${name}" ${type}`);
  return `jsonb_to_recordset($1::text::jsonb) AS v(${list.join(", ")})`;
}

function typesOf<Name extends string>(
  table: Record<Name, ColumnLike>,
  names: readonly Name[],
): Record<string, "bigint" | "text"> {
  const types = names.map(
    (name) => [name, table[name].getSQLType() === "text" ? "text" : "bigint"] as const,
  );
  return Object.fromEntries(types);
}

/** The names in the database. */
function namesOf<Name extends string>(
  table: Record<Name, ColumnLike>,
  names: readonly Name[],
): readonly string[] {
  return names.map((name) => table[name].name);
}

const valueOf = (name: string): string => `v."${name}"`;

/** The clock of the database, in milliseconds since 1970. */
export const CLOCK_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/** `$1`: the number of the batch, `$2`: the lease. No row: the replica is fenced. */
export const FENCE =
  "UPDATE replicas SET last_batch = $1::text::bigint WHERE id = $2::text::bigint AND ended_at IS NULL RETURNING id";

/** Locks accounts in the order of their ids, as every transaction does. */
export const LOCK_ACCOUNTS =
  "SELECT id, balance, overdraft, ledger_seq, reserved FROM accounts WHERE id = ANY($1::text::bigint[]) ORDER BY id FOR NO KEY UPDATE";
/** Locks only the accounts that no other transaction has locked. */
export const LOCK_FREE_ACCOUNTS = `${LOCK_ACCOUNTS} SKIP LOCKED`;

export const LOCK_KEYS =
  "SELECT id, account_id, budget, spent FROM keys WHERE id = ANY($1::text::bigint[]) ORDER BY id FOR NO KEY UPDATE";
export const LOCK_FREE_KEYS = `${LOCK_KEYS} SKIP LOCKED`;

/** Waits for everybody who keeps all writers out of a table. */
export const LOCK_TABLES =
  "LOCK TABLE accounts, keys, vouchers, ledger, requests, attempts, request_figures, daily_totals, daily_figures, reserves, response_owner, changes IN ROW EXCLUSIVE MODE";

/** The blocks of these accounts: those of the replica `$2`, and the sums of all others. */
export const READ_BLOCKS =
  "SELECT account_id, key_id, (coalesce(sum(amount) FILTER (WHERE replica_id = $2::text::bigint), 0))::bigint AS own, (coalesce(sum(amount) FILTER (WHERE replica_id <> $2::text::bigint), 0))::bigint AS others FROM reserves WHERE account_id = ANY($1::text::bigint[]) GROUP BY account_id, key_id";

/**
 * Statements that find requests name them in an array too. A plan is made once: what was planned as a join for a table with
 * few rows would read all rows of a large one.
 */
export const FIND_LATE_ROWS =
  "SELECT id, public_id FROM requests WHERE public_id = ANY(ARRAY(SELECT jsonb_array_elements_text($1::text::jsonb)))";

/** `$2`: the lease. */
export const INSERT_REQUESTS = `INSERT INTO requests (${namesOf(requests, requestColumns).join(", ")}, replica_id) SELECT v.*, CASE WHEN v.status = 'running' THEN $2::text::bigint END FROM ${rowsOf(typesOf(requests, requestColumns))}`;

/** `$2`: the ids of the rows. */
export const END_REQUESTS = `UPDATE requests SET ${endColumns
  .map((name) => `${requests[name].name} = ${valueOf(name)}`)
  .join(
    ", ",
  )}, replica_id = NULL FROM ${rowsOf({ id: "bigint", ...typesOf(requests, endColumns) })} WHERE requests.id = v.id AND requests.id = ANY($2::text::bigint[])`;

const attemptColumns = columnsOf(attempts, ["requestId"]);
/** `$2`: the public ids of their requests, as JSON. */
export const INSERT_ATTEMPTS = `INSERT INTO attempts (request_id, ${namesOf(attempts, attemptColumns).join(", ")}) SELECT requests.id, ${attemptColumns
  .map(valueOf)
  .join(
    ", ",
  )} FROM ${rowsOf({ publicId: "text", ...typesOf(attempts, attemptColumns) })} JOIN requests ON requests.public_id = v."publicId" WHERE requests.public_id = ANY(ARRAY(SELECT jsonb_array_elements_text($2::text::jsonb)))`;

const figureColumns = columnsOf(requestFigures, ["requestId"]);
/** `$2`: the public ids of their requests, as JSON. */
export const INSERT_FIGURES = `INSERT INTO request_figures (request_id, ${namesOf(requestFigures, figureColumns).join(", ")}) SELECT requests.id, ${figureColumns
  .map(valueOf)
  .join(
    ", ",
  )} FROM ${rowsOf({ publicId: "text", ...typesOf(requestFigures, figureColumns) })} JOIN requests ON requests.public_id = v."publicId" WHERE requests.public_id = ANY(ARRAY(SELECT jsonb_array_elements_text($2::text::jsonb)))`;

const movedColumns = ["id", "balance", "ledgerSeq", "reserved"] as const;
/** Only accounts with new rows in their history: at the commit a trigger checks that the balance follows from them. */
export const MOVE_ACCOUNTS = `UPDATE accounts SET balance = v.balance, ledger_seq = v."ledgerSeq", reserved = v.reserved FROM ${rowsOf(typesOf(accounts, movedColumns))} WHERE accounts.id = v.id`;

export const RESERVE_ACCOUNTS = `UPDATE accounts SET reserved = v.reserved FROM ${rowsOf({ id: "bigint", reserved: "bigint" })} WHERE accounts.id = v.id`;

const block = { accountId: "bigint", keyId: "bigint", amount: "bigint" } as const;
/** `$2`: the lease. */
export const SET_BLOCKS = `INSERT INTO reserves (replica_id, account_id, key_id, amount) SELECT $2::text::bigint, v."accountId", v."keyId", v.amount FROM ${rowsOf(block)} WHERE v.amount > 0 ON CONFLICT (replica_id, account_id, key_id) DO UPDATE SET amount = excluded.amount`;
export const REMOVE_BLOCKS = `DELETE FROM reserves USING ${rowsOf(block)} WHERE v.amount = 0 AND reserves.replica_id = $2::text::bigint AND reserves.account_id = v."accountId" AND reserves.key_id = v."keyId"`;

/** A row without a time charges a key and leaves its last use. */
export const CHANGE_KEYS = `UPDATE keys SET spent = keys.spent + coalesce(v.charged, 0), last_used_at = coalesce(v.at, keys.last_used_at),
  first_address = CASE WHEN v.at IS NULL THEN keys.first_address WHEN v.address IS NULL THEN NULL ELSE coalesce(keys.first_address, v.address) END,
  last_address = CASE WHEN v.at IS NULL THEN keys.last_address ELSE v.address END
  FROM ${rowsOf({ id: "bigint", charged: "bigint", at: "bigint", address: "text" })} WHERE keys.id = v.id`;

const totalColumns = [...totalGroup, ...totalSums] as const;
const addedSums = totalSums.map((name) => {
  const column = dailyTotals[name].name;
  return cappedSums.includes(name)
    ? `${column} = least(daily_totals.${column}::numeric + excluded.${column}, ${INT64_MAX})::bigint`
    : `${column} = daily_totals.${column} + excluded.${column}`;
});
/** In the order of their key, so that two transactions do not wait for each other. */
export const ADD_TO_TOTALS = `INSERT INTO daily_totals (${namesOf(dailyTotals, totalColumns).join(", ")}, refunded) SELECT v.*, 0 FROM ${rowsOf(typesOf(dailyTotals, totalColumns))} ORDER BY ${totalGroup.map(valueOf).join(", ")} ON CONFLICT (${namesOf(dailyTotals, totalGroup).join(", ")}) DO UPDATE SET ${addedSums.join(", ")}`;

const dailyFigureColumns = columnsOf(dailyFigures);
const figureGroup = [...totalGroup, "figure"] as const;
/** In the order of their key, after the totals. */
export const ADD_TO_FIGURES = `INSERT INTO daily_figures (${namesOf(dailyFigures, dailyFigureColumns).join(", ")}) SELECT v.* FROM ${rowsOf(typesOf(dailyFigures, dailyFigureColumns))} ORDER BY ${figureGroup.map(valueOf).join(", ")} ON CONFLICT (${namesOf(dailyFigures, figureGroup).join(", ")}) DO UPDATE SET quantity = daily_figures.quantity + excluded.quantity`;

export const LOCK_VOUCHERS =
  "SELECT id, public_id, amount, expires_at, revoked_at, redeemed_by FROM vouchers WHERE id = ANY($1::text::bigint[]) ORDER BY id FOR UPDATE";

/** For one row: the next credit of the account follows from what a trigger does after this one. */
export const INSERT_CREDIT = `INSERT INTO ledger (${namesOf(ledger, creditColumns).join(", ")}, kind) SELECT v.*, 'credit' FROM ${rowsOf(typesOf(ledger, creditColumns))}`;

export const END_VOUCHERS = `UPDATE vouchers SET redeemed_at = v."redeemedAt", redeemed_by = v."redeemedBy" FROM ${rowsOf({ id: "bigint", redeemedAt: "bigint", redeemedBy: "bigint" })} WHERE vouchers.id = v.id`;

const ownerColumns = columnsOf(responseOwner, ["hash"]);
/** With the rules of `prepareOwners` of SQLite. `$2`: the time. */
export const RECORD_OWNERS = `INSERT INTO response_owner (hash, ${namesOf(responseOwner, ownerColumns).join(", ")})
SELECT decode(v.hash, 'hex'), ${ownerColumns.map(valueOf).join(", ")}
FROM ${rowsOf({ hash: "text", ...typesOf(responseOwner, ownerColumns) })}
ORDER BY v.hash
ON CONFLICT (hash) DO UPDATE SET account_id = excluded.account_id, provider = excluded.provider, history_tokens = excluded.history_tokens,
expires_at = CASE WHEN response_owner.expires_at BETWEEN -($2::text::bigint) AND $2::text::bigint
OR response_owner.account_id = excluded.account_id AND response_owner.expires_at > 0
THEN excluded.expires_at ELSE -excluded.expires_at END`;

/** `$2`: the most rows. It leaves out what another batch has locked. So it never waits, and no two batches wait for each other. */
export const REMOVE_EXPIRED_OWNERS = `DELETE FROM response_owner WHERE hash IN (SELECT hash FROM response_owner
WHERE expires_at BETWEEN -($1::text::bigint) AND $1::text::bigint LIMIT $2::text::bigint FOR UPDATE SKIP LOCKED)`;

/** Tells all replicas that money of these accounts is wanted that others have reserved. */
export const TELL_WANTED =
  "SELECT pg_notify('tollgate_wanted', account) FROM jsonb_array_elements_text($1::text::jsonb) AS account";
