import { figureDocs } from "../contract/answerFields.ts";
import { figures, isCounter, type CounterFigure, type Figure } from "../contract/figures.ts";
import { NANO_ROUBLES_PER_ROUBLE } from "../lib/money.ts";
import type { LiveFigures } from "./metrics.ts";

/** Histogram buckets in seconds. */
const ANSWER_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const FIRST_CONTENT_BUCKETS = [0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 15, 30, 60, 120];
const COMMIT_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];

/** A metric of what happens: a counter, or a histogram if the row has buckets. */
export type EventRow = readonly [
  name: string,
  labels: readonly string[],
  help: string,
  buckets?: number[],
];

/** The kind of a token in `tollgate_tokens_total`. */
export function tokenKind({ field, metric }: Pick<Figure, "field" | "metric">): string {
  return metric ?? field.replace(/_tokens$/, "");
}

const tokenKinds = figures
  .filter((figure) => !isCounter(figure) && !("isRare" in figure))
  .map(tokenKind);
const otherCounts = Object.fromEntries(
  figures
    .filter(isCounter)
    .map(({ name, field }) => [
      name,
      [`tollgate_${field}_total`, ["model"], `Billed: ${figureDocs[name].doc}`],
    ]),
) as unknown as Readonly<Record<CounterFigure["name"], EventRow>>;

export const EVENTS = {
  requests: [
    "tollgate_requests_total",
    ["endpoint", "model", "outcome"],
    "Requests for which money was held, by endpoint, model and outcome: done, failed, cancelled (the client disconnected, or the answer was cut after content).",
  ],
  requestDurations: [
    "tollgate_request_duration_seconds",
    ["endpoint", "model"],
    "Time from the hold to the committed charge.",
    ANSWER_BUCKETS,
  ],
  attempts: [
    "tollgate_attempts_total",
    ["provider", "model", "outcome"],
    "Attempts at providers, by provider, model and outcome: ok, status 429 and so on, or the kind of failure. Counted when the request ends.",
  ],
  attemptDurations: [
    "tollgate_attempt_duration_seconds",
    ["provider", "model"],
    "Time from the start of an attempt to the end of its answer or to its failure.",
    ANSWER_BUCKETS,
  ],
  firstContents: [
    "tollgate_time_to_first_content_seconds",
    ["provider", "model"],
    "Streams only: time from the start of the attempt to the first content of the answer.",
    FIRST_CONTENT_BUCKETS,
  ],
  tokens: [
    "tollgate_tokens_total",
    ["model", "provider", "kind"],
    `Billed tokens by model, provider and kind: ${tokenKinds.join(", ")}, and those of audio and images. Each token counts once. The provider is empty where none answered.`,
  ],
  cacheSaved: [
    "tollgate_cache_saved_roubles_total",
    ["model", "provider", "payer"],
    "Roubles that requests cost less because of the provider's prompt cache, by payer: account (by the prices of the model), operator (by the costs of the route, if they are known). A float for graphs.",
  ],
  cacheLost: [
    "tollgate_cache_lost_roubles_total",
    ["model", "provider", "payer"],
    "Roubles that requests cost more because of the provider's prompt cache: its writes cost more than input. The caches save the difference of the two metrics.",
  ],
  ...otherCounts,
  charged: [
    "tollgate_charged_roubles_total",
    ["model"],
    "Roubles charged. A float for graphs; the ledger has the exact amounts.",
  ],
  writtenOff: [
    "tollgate_written_off_roubles_total",
    ["model"],
    "Roubles written off because neither the hold nor the balance covered them. A float for graphs.",
  ],
  estimates: [
    "tollgate_estimates_total",
    ["model"],
    "Requests charged by an estimate because the provider reported no usable usage.",
  ],
  refused: [
    "tollgate_requests_refused_total",
    ["endpoint", "status"],
    "Requests rejected before money was held, by endpoint and HTTP status.",
  ],
  unknownFinishReasons: [
    "tollgate_unknown_finish_reasons_total",
    ["model"],
    "Unknown finish reasons that providers sent. Clients receive stop or tool_calls instead.",
  ],
  unpricedAnswers: [
    "tollgate_unpriced_answers_total",
    ["provider", "model", "service"],
    "Answers that cost more than the price of their model is for, by provider, its model and service: a service tier, a speed, a place, or web searches without a price.",
  ],
  retriesRefused: [
    "tollgate_retry_budget_refusals_total",
    [],
    "Third attempts that the retry budget refused.",
  ],
  probes: [
    "tollgate_probes_total",
    ["provider", "model", "outcome"],
    "Tiny requests by which the gateway itself asks a route, by provider, its model and outcome. Nobody is charged for them.",
  ],
  spansLost: [
    "tollgate_spans_lost_total",
    [],
    "Spans that could not be sent to the trace collector.",
  ],
  commits: [
    "tollgate_store_commit_duration_seconds",
    [],
    "Time to commit one batch of writes to the database.",
    COMMIT_BUCKETS,
  ],
  reloads: [
    "tollgate_config_reloads_total",
    ["outcome"],
    "Config reloads by outcome: ok, or refused (the old config stays in force).",
  ],
} as const satisfies Record<string, EventRow>;

const BREAKER_VALUES = { closed: 0, "half-open": 1, open: 2 } as const;

/**
 * A metric that is read at each scrape: a counter that begins at 0 with the gateway if its name ends with `_total`, else a
 * gauge. A figure without a value is left out: SQLite has no replicas, and PostgreSQL's files are not on this machine.
 */
type LiveRow = readonly [
  name: string,
  help: string,
  value: (figures: LiveFigures) => number | undefined | readonly (readonly [Labels, number])[],
  labels?: readonly string[],
  /** What is shown of the values of several processes of one gateway; their sum if nothing is said. */
  ofProcesses?: "max" | "min",
];
type Labels = Readonly<Record<string, string>>;

export const LIVE: readonly LiveRow[] = [
  ["tollgate_open_requests", "Requests in progress, streams included.", (now) => now.openRequests],
  ["tollgate_open_streams", "Streamed answers in progress.", (now) => now.openStreams],
  [
    "tollgate_store_log_bytes",
    "Size of the write-ahead log of the database in bytes. Some megabytes are normal.",
    (now) => now.walBytes,
    [],
    "max",
  ],
  [
    "tollgate_store_free_bytes",
    "Bytes that the gateway may still write to the disk of the database.",
    (now) => now.freeBytes,
    [],
    "max",
  ],
  [
    "tollgate_body_bytes",
    "Bytes of request bodies in memory: bodies being read, and bodies whose answer has not begun. All together may take a sixth of the memory.",
    (now) => now.bodyBytes,
  ],
  [
    "tollgate_detached_answers",
    "Answers that the gateway reads on after their clients disconnected, beyond disconnect_grace. At most 1,024.",
    (now) => now.disconnectedAnswers,
  ],
  [
    "tollgate_held_roubles",
    "Roubles held for open requests. A float for graphs.",
    (now) => roubles(now.held),
  ],
  [
    "tollgate_store_queued_writes",
    "Database writes that wait for the writer or for its commit.",
    (now) => now.queuedWrites,
  ],
  [
    "tollgate_store_full",
    "1 while the disk of the database is full, else 0. The gateway refuses requests and recovers by itself.",
    (now) => (now.blockedBy === "full" ? 1 : 0),
    [],
    "max",
  ],
  [
    "tollgate_store_locked",
    "1 while another process keeps the database locked, else 0. The gateway refuses requests and recovers by itself.",
    (now) => (now.blockedBy === "busy" ? 1 : 0),
    [],
    "max",
  ],
  [
    "tollgate_store_unreachable",
    "1 while the PostgreSQL server cannot be reached or refuses this replica, else 0. It refuses requests and recovers by itself.",
    ({ replica, blockedBy }) => replica && (blockedBy === "unreachable" ? 1 : 0),
    [],
    "max",
  ],
  [
    "tollgate_store_locked_accounts",
    "Accounts whose charges wait because another session on the PostgreSQL server has locked their rows.",
    ({ replica }) => replica?.lockedAccounts,
  ],
  [
    "tollgate_replica_id",
    "Number of this replica's lease, 0 while it has none.",
    ({ replica }) => replica && (replica.id ?? 0),
  ],
  [
    "tollgate_replica_lease_age_seconds",
    "Time since the last successful heartbeat of this replica, usually below 2. Above 10 the replica refuses requests.",
    ({ replica }) => replica && replica.leaseAgeMs / 1000,
    [],
    "max",
  ],
  [
    "tollgate_database_clock_skew_seconds",
    "The clock of the PostgreSQL server less that of this machine, at the last heartbeat. More than 2 or less than -2 is logged.",
    ({ replica }) => (replica?.clockSkewMs === undefined ? undefined : replica.clockSkewMs / 1000),
    [],
    "max",
  ],
  [
    "tollgate_replicas_live",
    "Replicas on the same database with a heartbeat in the last 15 s, this one included.",
    ({ replica }) => replica?.liveReplicas,
    [],
    "max",
  ],
  [
    "tollgate_replica_blocks",
    "Accounts of which this replica has reserved money.",
    ({ replica }) => replica?.blocks,
  ],
  [
    "tollgate_replica_reserved_roubles",
    "Roubles that this replica has reserved. A float for graphs.",
    ({ replica }) => replica && roubles(replica.reserved),
  ],
  [
    "tollgate_limits_server_used",
    "1 while the limits server counts for all replicas, 0 while this replica allows its share of each limit.",
    ({ sharedLimits }) => sharedLimits && (sharedLimits.isUsed ? 1 : 0),
    [],
    "min",
  ],
  [
    "tollgate_tls_certificate_expiry_timestamp_seconds",
    "When the TLS certificate of the public listener expires, Unix time. A reload that renews it changes the figure.",
    ({ certificateExpiresAt }) => certificateExpiresAt && certificateExpiresAt / 1000,
    [],
    "max",
  ],
  [
    "tollgate_store_transactions_total",
    "Transactions of this replica's writer since the start.",
    ({ replica }) => replica?.transactions,
  ],
  [
    "tollgate_store_round_trips_total",
    "Round trips of this replica's writer to the PostgreSQL server since the start.",
    ({ replica }) => replica?.roundTrips,
  ],
  [
    "tollgate_store_commit_lookups_total",
    "Commits since the start whose reply was lost and whose outcome was looked up.",
    ({ replica }) => replica?.lookUps,
  ],
  [
    "tollgate_store_conflicts_total",
    "Transactions since the start that were run again because another one was in the way.",
    ({ replica }) => replica?.conflicts,
  ],
  [
    "tollgate_limits_by_share_total",
    "Requests since the start that this replica counted by itself because the limits server did not answer in time.",
    ({ sharedLimits }) => sharedLimits?.byShare,
  ],
  [
    "tollgate_breaker_state",
    "Circuit breaker of a route, by provider and its model: 0 closed (healthy), 1 half-open (one probe at a time), 2 open (the gateway skips the route).",
    ({ breakers }) =>
      breakers.map(({ provider, model, state }) => [{ provider, model }, BREAKER_VALUES[state]]),
    ["provider", "model"],
    "max",
  ],
  [
    "tollgate_notices",
    "Conditions that a person should know, by type, as notices have them: how many accounts are low, keys expire soon, routes are refused. Those of the database are up to a minute old.",
    ({ notices = {} }) => Object.entries(notices).map(([type, count]) => [{ type }, count]),
    ["type"],
    "max",
  ],
];

/** A float for graphs only. Money is never computed with it. */
export function roubles(nano: bigint): number {
  return Number(nano) / Number(NANO_ROUBLES_PER_ROUBLE);
}
