import {
  audit,
  crashNotes,
  type AuditCheck,
  type AuditReport,
  type AuditWatch,
  type EngineChecks,
  type StructureProblem,
} from "../../audit/audit.ts";
import type { OnAuditProgress } from "../../audit/auditProgress.ts";
import type { Connection } from "../../connection.ts";
import { expectedObjects } from "../../schema/migrationFiles.ts";
import { PostgresPool, type ServerAddress } from "../pool.ts";
import { PostgresQueries } from "../queries.ts";
import { versionOf, knownSchema } from "../schema/migrations.ts";
import { SILENT_MS } from "../writer/replicas.ts";
import { CLOCK_MS } from "../writer/statements.ts";
import { isUnreadable, schemaObjects, schemaProblems } from "./schemaObjects.ts";

/** The audit on PostgreSQL, in one REPEATABLE READ snapshot. Within a transaction it audits what that one sees. */
export function auditServer(
  connection: Connection,
  onProgress?: OnAuditProgress,
): Promise<AuditReport> {
  return connection.inSnapshot(async (snapshot) => {
    // The user may have a limit that is too short for a rule about all requests.
    await snapshot.rows("SET LOCAL statement_timeout = 0");
    const structure = await structureOf(snapshot);
    if (isUnreadable(structure.map(({ problem }) => problem)))
      return { accounts: 0, requests: 0, problems: structure.map(lineOf), notes: [] };
    const engine = { ...serverChecks, structure: async () => structure };
    return await audit(snapshot, engine, { atRest: await isAtRest(snapshot) }, onProgress);
  });
}

/** The audit on a connection of its own: reads of a serving replica have a time limit, and an audit needs longer. */
export async function auditServerApart(
  address: ServerAddress,
  { onProgress, signal }: AuditWatch = {},
): Promise<AuditReport> {
  const pool = new PostgresPool(address);
  const end = () => void pool.close();
  signal?.addEventListener("abort", end);
  try {
    return await auditServer(new PostgresQueries(pool), (progress) => {
      if (signal?.aborted !== true) onProgress?.(progress);
    });
  } finally {
    signal?.removeEventListener("abort", end);
    await pool.close();
  }
}

/** No gateway serves from the database. One that was killed counts as serving until it is silent. */
export async function isAtRest(snapshot: Connection): Promise<boolean> {
  const live = await snapshot.row(
    `SELECT 1 AS one FROM replicas WHERE ended_at IS NULL AND seen_at > ${CLOCK_MS} - ${SILENT_MS} LIMIT 1`,
  );
  return live === undefined;
}

async function structureOf(snapshot: Connection): Promise<readonly StructureProblem[]> {
  const version = await snapshot.row<{ applied: bigint }>("SELECT applied FROM schema_version");
  // The objects of a newer version are not known here.
  const isNewer = Number(version?.applied ?? 0) > versionOf(knownSchema);
  const problems = schemaProblems(
    await schemaObjects(snapshot),
    isNewer ? undefined : expectedObjects(),
  );
  return problems.map((problem) => ({ subject: "schema", problem }));
}

function lineOf({ subject, problem }: StructureProblem): string {
  return `${subject}: ${problem}`;
}

/** Reads the rows, and not the unique index, which may be damaged. */
function isThereTwice(table: string, column: string, subject: string): AuditCheck {
  return {
    problem: `its ${column} is there more than once`,
    query: `SELECT ${subject} AS subject FROM ${table} WHERE ${column} IS NOT NULL
      GROUP BY ${column} HAVING count(*) > 1`,
  };
}

const serverChecks: Omit<EngineChecks, "structure"> = {
  structureReadsAllRecords: false,
  rules: [
    isThereTwice("ledger", "ref", "'ledger row ' || min(id)"),
    isThereTwice("requests", "public_id", "'request ' || public_id"),
    isThereTwice("vouchers", "public_id", "'voucher ' || public_id"),
    isThereTwice("vouchers", "hash", "'voucher ' || min(public_id)"),
    isThereTwice("keys", "public_id", "'key ' || public_id"),
    isThereTwice("keys", "hash", "'key ' || min(public_id)"),
    {
      problem: "what is reserved is not the sum of the blocks of its replicas",
      query: `SELECT 'account ' || name AS subject FROM accounts WHERE reserved <>
        (SELECT coalesce(sum(amount), 0) FROM reserves WHERE account_id = accounts.id AND key_id = 0)`,
    },
    {
      problem: "has ended, but has money reserved",
      query: `SELECT 'replica ' || id AS subject FROM replicas WHERE ended_at IS NOT NULL
        AND EXISTS (SELECT 1 FROM reserves WHERE replica_id = replicas.id)`,
    },
    {
      problem: "is not there, but has money reserved",
      query: `SELECT DISTINCT 'replica ' || replica_id AS subject FROM reserves
        WHERE NOT EXISTS (SELECT 1 FROM replicas WHERE id = replica_id)`,
    },
    {
      problem: "has reserved for an account that is not there, or a block that is not above zero",
      query: `SELECT DISTINCT 'replica ' || replica_id AS subject FROM reserves
        LEFT JOIN accounts ON accounts.id = account_id WHERE accounts.id IS NULL OR amount <= 0`,
    },
    {
      problem: "has reserved of the budget of a key that begins no rotation chain of the account",
      query: `SELECT DISTINCT 'replica ' || replica_id AS subject FROM reserves
        LEFT JOIN keys ON keys.id = key_id
        WHERE key_id <> 0 AND (keys.account_id IS DISTINCT FROM reserves.account_id OR first_key_id IS NOT NULL)`,
    },
    {
      problem: "is running, but no replica runs it",
      query: `SELECT 'request ' || public_id AS subject FROM requests WHERE status = 'running' AND status <> 'done'
        AND NOT EXISTS (SELECT 1 FROM replicas WHERE id = replica_id AND ended_at IS NULL)`,
    },
    {
      problem: "has ended, but a replica runs it",
      query: `SELECT 'request ' || public_id AS subject FROM requests
        WHERE replica_id IS NOT NULL AND status <> 'running'`,
    },
  ],
  notes: [
    ...crashNotes("a gateway"),
    {
      problem: "sends no heartbeat, and ends when a gateway starts",
      query: `SELECT 'replica ' || id AS subject FROM replicas WHERE ended_at IS NULL`,
    },
    {
      // A command may have lowered the budget, or a request cost more than expected. Replicas give back what they can.
      problem: "its replicas have reserved more than what is left of its budget",
      isAlways: true,
      query: `SELECT 'key ' || public_id AS subject FROM keys WHERE
        (SELECT sum(amount) FROM reserves WHERE key_id = keys.id) > greatest(coalesce(budget - spent, 0), 0)`,
    },
  ],
};
