import type { WireOperation } from "../../writer/writerMessages.ts";
import { statement, type Statement } from "./session.ts";

const RECORD = `INSERT INTO response_owner (hash, account_id, provider, expires_at, history_tokens)
SELECT decode(v.hash, 'hex'), v.account_id, v.provider, v.expires_at, v.history_tokens
FROM jsonb_to_recordset($1::text::jsonb) AS v(hash text, account_id bigint, provider text, expires_at bigint, history_tokens bigint)
ORDER BY v.hash
ON CONFLICT (hash) DO UPDATE SET account_id = excluded.account_id, provider = excluded.provider, history_tokens = excluded.history_tokens,
expires_at = CASE WHEN response_owner.expires_at BETWEEN -($2::text::bigint) AND $2::text::bigint
OR response_owner.account_id = excluded.account_id AND response_owner.expires_at > 0
THEN excluded.expires_at ELSE -excluded.expires_at END`;

/** `$2`: the most rows. It leaves out what another batch has locked. So it never waits, and no two batches wait for each other. */
const REMOVE_EXPIRED = `DELETE FROM response_owner WHERE hash IN (SELECT hash FROM response_owner
WHERE expires_at BETWEEN -($1::text::bigint) AND $1::text::bigint LIMIT $2::text::bigint FOR UPDATE SKIP LOCKED)`;

type RecordOwners = Extract<WireOperation, { kind: "recordOwners" }>;

/**
 * The rules are those of `prepareRecordOwner`. Each batch removes up to two expired objects for each one that it records, so
 * that there are never many of them.
 */
export function recordOwners(operations: readonly RecordOwners[]): readonly Statement[] {
  const last = operations.at(-1);
  if (last === undefined) return [];
  const count = operations.reduce((sum, { objects }) => sum + objects.length, 0);
  return [
    ...operations.flatMap(record),
    statement(REMOVE_EXPIRED, String(last.at), String(2 * count)),
  ];
}

function record({ objects, at }: RecordOwners): readonly Statement[] {
  // One statement cannot change a row twice.
  const byHash = new Map(objects.map((object) => [object.hash, object]));
  const rows = [...byHash.values()].map((object) => ({
    hash: object.hash,
    account_id: object.accountId,
    provider: object.provider,
    expires_at: object.expiresAt,
    history_tokens: object.historyTokens,
  }));
  return rows.length === 0 ? [] : [statement(RECORD, JSON.stringify(rows), String(at))];
}
