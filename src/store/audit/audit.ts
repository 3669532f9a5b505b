import { columnFigures, rowFigures } from "../../contract/figures.ts";
import type { Connection } from "../connection.ts";
import { modelsFromJson } from "../tables/keys.ts";
import { auditLedger } from "./auditLedger.ts";
import {
  auditSteps,
  collectProblems,
  noSteps,
  type OnAuditProgress,
  PROBLEMS_PER_RULE_MAX,
} from "./auditProgress.ts";
import { auditTotals } from "./auditTotals.ts";

/** One line for each problem, with the row. `notes` are not problems. */
export interface AuditReport {
  accounts: number;
  requests: number;
  problems: string[];
  notes: string[];
}

/** How an audit that runs beside other work is watched. After `signal` it ends, and its promise may never settle. */
export interface AuditWatch {
  readonly onProgress?: OnAuditProgress;
  readonly signal?: AbortSignal;
}

/** `atRest`: no gateway is running. `moneyOnly`: skips the settings of keys and accounts. */
export interface AuditOptions {
  atRest: boolean;
  moneyOnly?: boolean;
}

/** What only one engine has to check. */
export interface EngineChecks {
  /** Problems of the file and of the schema. Runs in the snapshot of the audit. */
  structure(snapshot: Connection): Promise<readonly StructureProblem[]>;
  /** The check of the structure reads all records. */
  readonly structureReadsAllRecords: boolean;
  readonly rules: readonly AuditCheck[];
  /**
   * What a gateway leaves when it crashes. The next gateway repairs that at its start, so it is a note and no problem.
   */
  readonly notes: readonly AuditNote[];
}

/** `subject`: `database file` or `schema`. */
export interface StructureProblem {
  readonly subject: string;
  readonly problem: string;
}

/**
 * Checks structure, schema and all rules in one snapshot. The rules share no code with the writers, and repeat what
 * triggers and constraints enforce. The memory does not grow with the number of requests.
 */
export function audit(
  connection: Connection,
  engine: EngineChecks,
  options: AuditOptions,
  onProgress?: OnAuditProgress,
): Promise<AuditReport> {
  return connection.inSnapshot((snapshot) => auditSnapshot(snapshot, engine, options, onProgress));
}

async function auditSnapshot(
  snapshot: Connection,
  engine: EngineChecks,
  { atRest, moneyOnly = false }: AuditOptions,
  onProgress: OnAuditProgress | undefined,
): Promise<AuditReport> {
  const problems = collectProblems();
  const rules = [...auditChecks, ...engine.rules, ...(moneyOnly ? [] : settingsChecks)];
  const sizes = {
    accounts: await sizeOf(snapshot, "accounts"),
    requests: await sizeOf(snapshot, "requests"),
    ledger: await sizeOf(snapshot, "ledger"),
  };
  const history = sizes.requests + sizes.ledger;
  const rowsOf = ({ query }: AuditCheck): number =>
    query.includes("FROM requests") ? sizes.requests : sizes.ledger;
  const ofFile = engine.structureReadsAllRecords ? history : 0;
  const total = rules.reduce((sum, rule) => sum + rowsOf(rule), ofFile + history + sizes.requests);
  const steps = onProgress ? auditSteps(total, onProgress) : noSteps;
  steps.begin(engine.structureReadsAllRecords ? "file" : "rules", ofFile);
  for (const { subject, problem } of await engine.structure(snapshot))
    problems.add(subject, problem);
  for (const rule of rules) {
    steps.begin("rules", rowsOf(rule));
    for (const subject of await subjectsOf(snapshot, rule)) problems.add(subject, rule.problem);
  }
  if (!moneyOnly)
    for (const subject of await damagedModelLists(snapshot)) problems.add(subject, DAMAGED_MODELS);
  steps.begin("histories", history);
  await auditLedger(snapshot, problems, steps);
  steps.begin("totals", sizes.requests);
  await auditTotals(snapshot, problems, steps);
  const notes: string[] = [];
  for (const note of engine.notes.filter(({ isAlways }) => atRest || isAlways))
    for (const subject of await subjectsOf(snapshot, note))
      notes.push(`${subject}: ${note.problem}`);
  const { accounts, requests } = sizes;
  return { accounts, requests, problems: problems.lines, notes };
}

async function sizeOf(snapshot: Connection, table: string): Promise<number> {
  const row = await snapshot.row<{ rows: bigint }>(`SELECT count(*) AS rows FROM ${table}`);
  return Number(row?.rows ?? 0);
}

/** The first rows that break a rule. */
async function subjectsOf(snapshot: Connection, { query }: AuditCheck): Promise<readonly string[]> {
  const rows = await snapshot.rows<{ subject: string }>(`${query} LIMIT ${PROBLEMS_PER_RULE_MAX}`);
  return rows.map(({ subject }) => subject);
}

const DAMAGED_MODELS = "its list of models is damaged";

/** Keys whose list of models is no list of names. */
async function damagedModelLists(snapshot: Connection): Promise<readonly string[]> {
  const subjects: string[] = [];
  await snapshot.forEach<{ id: string; models: string }>(
    "SELECT public_id AS id, models FROM keys WHERE models IS NOT NULL ORDER BY id",
    {},
    ({ id, models }) => {
      if (modelsFromJson(models).length === 0) subjects.push(`key ${id}`);
    },
  );
  return subjects;
}

/** The problems of the settings of keys and accounts, one line each. */
export async function settingsProblems(snapshot: Connection): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const rule of settingsChecks)
    for (const subject of await subjectsOf(snapshot, rule))
      lines.push(`${subject}: ${rule.problem}`);
  const damaged = (await damagedModelLists(snapshot)).slice(0, PROBLEMS_PER_RULE_MAX);
  return [...damaged.map((subject) => `${subject}: ${DAMAGED_MODELS}`), ...lines];
}

/** One rule, as a query for the rows that break it. */
export interface AuditCheck {
  readonly problem: string;
  /** Selects a text column `subject` for each row that breaks the rule. */
  readonly query: string;
  /** True if it checks each request by itself. A start runs it for the last requests. */
  readonly isOfRequest?: true;
}

/** For a sum or a product that may leave 64 bits after a manual change: PostgreSQL fails there. SQLite ignores the cast. */
function unbounded(value: string): string {
  return `CAST(${value} AS numeric)`;
}

/** `isAlways`: also while a gateway runs. */
interface AuditNote extends AuditCheck {
  readonly isAlways?: true;
}

/** What a crashed gateway leaves. `starter`: the gateway that repairs it at its start. */
export function crashNotes(starter: "a gateway" | "the gateway"): readonly AuditNote[] {
  return [
    {
      problem: `is set to interrupted when ${starter} starts`,
      // The second condition lets the index of requests that are not done be used.
      query: `SELECT 'request ' || public_id AS subject FROM requests
        WHERE status = 'running' AND status <> 'done'`,
    },
    {
      problem: `its reserve is released when ${starter} starts`,
      query: `SELECT 'account ' || name AS subject FROM accounts WHERE reserved > 0`,
    },
  ];
}

/** A sum that may be above 64 bits after a manual change. SQLite's `sum` fails there. */
function sumWithoutFailure(column: string): string {
  return `(sum(${column} / 1000000000) * 1000000000 + sum(${column} % 1000000000))`;
}

/**
 * The charge that the refund `f` gives back: in the row of its request, or in the ledger if the request was folded.
 * NULL: there is no such charge.
 */
const CHARGE_OF_REFUND = `coalesce(
        (SELECT charge FROM requests WHERE account_id = f.account_id AND ledger_seq = f.refund_of LIMIT 1),
        (SELECT -${unbounded("amount")} FROM ledger
          WHERE account_id = f.account_id AND seq = f.refund_of AND kind = 'charge' LIMIT 1))`;

/** The daily figures, and the sums of the requests that are kept. Of days with folded requests the totals may be larger. */
const SUMS_OF_FIGURES = `SELECT day, key_id, figure, ${sumWithoutFailure("total")} AS total, ${sumWithoutFailure("kept")} AS kept
  FROM (SELECT day, account_id, key_id, model, provider, endpoint, figure, quantity AS total, 0 AS kept FROM daily_figures
    UNION ALL SELECT r.at / 86400000, r.account_id, r.key_id, r.model, coalesce(r.provider, ''), r.endpoint, f.figure, 0, f.quantity
      FROM request_figures f JOIN requests r ON r.id = f.request_id) figures
  GROUP BY day, account_id, key_id, model, provider, endpoint, figure`;

/** The price of the column that counts a row of `request_figures` too; 0 if none does. */
const PRICE_OF_WHOLE = `CASE figure ${rowFigures
  .flatMap((figure) => {
    const whole = columnFigures.find(({ name }) => "within" in figure && figure.within === name);
    return whole ? [`WHEN '${figure.field}' THEN r.${whole.priceColumn}`] : [];
  })
  .join(" ")} ELSE 0 END`;

/** Rules about one row, and its related rows in other tables. */
export const auditChecks: readonly AuditCheck[] = [
  {
    problem: "balance is below its overdraft",
    query: `SELECT 'account ' || name AS subject FROM accounts
      WHERE ${unbounded("balance")} + overdraft < 0 OR overdraft < 0`,
  },
  {
    problem: "has a reserve below zero, or above what it can pay",
    query: `SELECT 'account ' || name AS subject FROM accounts
      WHERE reserved < 0 OR reserved > ${unbounded("balance")} + overdraft`,
  },
  {
    problem: "has a charge without a place in the ledger, or a place without a charge",
    isOfRequest: true,
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE (ledger_seq IS NOT NULL) <> (status = 'done' OR (status = 'cancelled' AND charge > 0))
        OR (balance_after IS NOT NULL) <> (ledger_seq IS NOT NULL)`,
  },
  {
    problem: "was folded, but is there",
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      WHERE EXISTS (SELECT 1 FROM ledger WHERE ref = 'req:' || r.public_id)`,
  },
  {
    problem: "charge and write-off are not the price of its usage",
    isOfRequest: true,
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE hold < 0 OR charge < 0 OR write_off < 0
        OR cached_tokens < 0 OR cache_write_tokens < 0 OR completion_tokens < 0 OR has_figures NOT IN (0, 1)
        OR ${unbounded("cached_tokens")} + cache_write_tokens > prompt_tokens
        OR cache_write_1h_tokens < 0 OR cache_write_1h_tokens > cache_write_tokens
        OR ${unbounded("charge")} + write_off <> ${unbounded("prompt_tokens")} * price_input
          - cached_tokens * (${unbounded("price_input")} - price_cached_input)
          - cache_write_tokens * (${unbounded("price_input")} - price_cache_write)
          + cache_write_1h_tokens * (${unbounded("price_cache_write_1h")} - price_cache_write)
          + ${unbounded("completion_tokens")} * price_output
          + ${unbounded("has_figures")} * figures_price`,
  },
  {
    problem: "its figures do not cost what it says",
    isOfRequest: true,
    query: `SELECT 'request ' || public_id AS subject FROM requests r
      WHERE has_figures <> 0 AND figures_price IS DISTINCT FROM
        (SELECT sum(${unbounded("quantity")} * (price - ${PRICE_OF_WHOLE})) FROM request_figures WHERE request_id = r.id)`,
  },
  {
    problem: "is no figure that its request can have",
    query: `SELECT 'figure ' || f.figure || ' of request row ' || f.request_id AS subject FROM request_figures f
      LEFT JOIN requests r ON r.id = f.request_id
      WHERE f.quantity <= 0 OR f.price < 0 OR coalesce(r.has_figures, 0) = 0 OR r.status = 'running'`,
  },
  {
    problem: "is not the sum of its requests",
    query: `SELECT 'total of ' || figure || ' of day ' || day || ', key row ' || key_id AS subject
      FROM (${SUMS_OF_FIGURES}) sums
      WHERE kept > total OR (kept <> total AND ${unbounded("day")} * 86400000 >= (SELECT kept_since FROM retention))`,
  },
  {
    problem: "has an unknown status, or a charge that its status excludes",
    isOfRequest: true,
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE status <> 'done' AND (status NOT IN ('running', 'failed', 'cancelled', 'interrupted')
        OR (status <> 'cancelled' AND (charge <> 0 OR write_off <> 0)))`,
  },
  {
    problem: "belongs to another account than its key",
    isOfRequest: true,
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      LEFT JOIN keys k ON k.id = r.key_id WHERE k.account_id IS DISTINCT FROM r.account_id`,
  },
  {
    problem: "does not have as many attempts as it counts",
    isOfRequest: true,
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      WHERE NOT (SELECT count(*) = r.attempt_count OR (count(*) = 0 AND r.attempt_count = 1)
        FROM attempts WHERE request_id = r.id)`,
  },
  {
    problem: "belongs to no request",
    query: `SELECT 'attempt ' || a.n || ' of request row ' || a.request_id AS subject FROM attempts a
      LEFT JOIN requests r ON r.id = a.request_id WHERE r.id IS NULL`,
  },
  {
    problem: "refunds no charge of its account",
    query: `SELECT 'ledger row ' || f.id AS subject FROM ledger f
      WHERE (f.kind = 'refund' OR f.refund_of IS NOT NULL)
        AND (f.kind <> 'refund' OR ${CHARGE_OF_REFUND} IS NULL)`,
  },
  {
    problem: "more was refunded than it charged",
    query: `SELECT 'account ' || a.name || ', row ' || f.refund_of AS subject
      FROM (SELECT account_id, refund_of, ${sumWithoutFailure("amount")} AS total FROM ledger
          WHERE refund_of IS NOT NULL GROUP BY account_id, refund_of) f
      JOIN accounts a ON a.id = f.account_id
      WHERE f.total > ${CHARGE_OF_REFUND}`,
  },
  {
    problem: "has an amount or a ref that its kind excludes",
    query: `SELECT 'ledger row ' || id AS subject FROM ledger
      WHERE kind NOT IN ('credit', 'debit', 'charge', 'refund')
        OR (kind IN ('debit', 'charge')) <> (amount <= 0)
        OR (kind = 'charge') <> (substr(coalesce(ref, ''), 1, 4) = 'req:')`,
  },
  {
    problem: "its rotation chain does not begin with a first key of the same account",
    query: `SELECT 'key ' || k.public_id AS subject FROM keys k LEFT JOIN keys f ON f.id = k.first_key_id
      WHERE k.first_key_id IS NOT NULL AND (f.account_id IS DISTINCT FROM k.account_id OR f.first_key_id IS NOT NULL)`,
  },
  {
    problem: "has spent less than nothing",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE spent < 0`,
  },
  // Vouchers and the credits that redeem them. Older refs with the prefix are the operator's own.
  {
    problem: "is redeemed, but its account does not have exactly that credit",
    query: `SELECT 'voucher ' || v.public_id AS subject FROM vouchers v
      WHERE (v.redeemed_at IS NOT NULL OR v.redeemed_by IS NOT NULL)
        AND (SELECT count(*) FROM ledger l WHERE l.ref = 'voucher:' || v.public_id AND l.kind = 'credit'
          AND l.amount = v.amount AND l.account_id = v.redeemed_by AND l.at = v.redeemed_at) <> 1`,
  },
  {
    problem: "has the ref of a voucher that its account has not redeemed",
    query: `SELECT 'ledger row ' || l.id AS subject FROM ledger l
      LEFT JOIN vouchers v ON v.public_id = substr(l.ref, length('voucher:') + 1)
      WHERE substr(l.ref, 1, 8) = 'voucher:' AND l.id > (SELECT ledger_id FROM voucher_start)
        AND (l.kind <> 'credit' OR v.redeemed_by IS DISTINCT FROM l.account_id OR v.amount IS DISTINCT FROM l.amount)`,
  },
  {
    problem: "has an amount or an end that a voucher cannot have",
    query: `SELECT 'voucher ' || public_id AS subject FROM vouchers
      WHERE amount <= 0 OR (redeemed_at IS NULL) <> (redeemed_by IS NULL)
        OR (redeemed_at IS NOT NULL AND revoked_at IS NOT NULL) OR redeemed_at >= expires_at`,
  },
  {
    problem: "does not have exactly one row",
    query: `SELECT 'retention' AS subject WHERE (SELECT count(*) FROM retention) <> 1
      UNION ALL SELECT 'changes' WHERE (SELECT count(*) FROM changes) <> 1
      UNION ALL SELECT 'voucher_start' WHERE (SELECT count(*) FROM voucher_start) <> 1`,
  },
];

/** The last millisecond of the year 9999, the latest time that commands accept and print. */
const TIME_MAX = 253_402_300_799_999;

/** NULL is allowed. */
function isOutside(column: string, max: number): string {
  return `${column} NOT BETWEEN 0 AND ${max}`;
}

/** Settings of keys and accounts. No sum depends on them, so no other rule finds a damaged one. */
const settingsChecks: readonly AuditCheck[] = [
  {
    problem: "has a limit or a budget out of range",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE budget < 0
      OR ${["requests_per_minute", "tokens_per_minute", "concurrent_requests"].map((limit) => isOutside(limit, Number.MAX_SAFE_INTEGER)).join(" OR ")}`,
  },
  {
    problem: "has a time out of range",
    query: `SELECT 'key ' || public_id AS subject FROM keys
      WHERE ${["created_at", "expires_at", "revoked_at", "last_used_at"].map((time) => isOutside(time, TIME_MAX)).join(" OR ")}
      UNION ALL SELECT 'account ' || name FROM accounts WHERE ${isOutside("created_at", TIME_MAX)}
      UNION ALL SELECT 'voucher ' || public_id FROM vouchers
        WHERE ${["created_at", "expires_at", "revoked_at", "redeemed_at"].map((time) => isOutside(time, TIME_MAX)).join(" OR ")}`,
  },
  {
    problem: "is neither enabled nor disabled",
    query: `SELECT 'account ' || name AS subject FROM accounts WHERE disabled NOT IN (0, 1)`,
  },
];
