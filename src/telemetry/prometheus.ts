import { setImmediate } from "node:timers/promises";
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";
import { NANO_ROUBLES_PER_ROUBLE } from "../lib/money.ts";
import { version } from "../lib/version.ts";
import type { EndedRequest, LiveFigures, ReadableMetrics } from "./metrics.ts";

/** Histogram buckets in seconds. */
const ANSWER_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const FIRST_CONTENT_BUCKETS = [0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 15, 30, 60, 120];
const COMMIT_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];

const BREAKER_VALUES = { closed: 0, "half-open": 1, open: 2 } as const;

/** Creates the Prometheus metrics. This module is loaded only if `[metrics]` is configured, to keep the start fast. */
export function createPrometheusMetrics(): ReadableMetrics {
  const registry = new Registry();
  collectProcessMetrics(registry);
  new Gauge({
    name: "tollgate_build_info",
    help: "Always 1. The labels version and bun name the running versions; version has the commit, such as 0.2.0+0a1b2c3d.",
    labelNames: ["version", "bun"],
    registers: [registry],
  }).set({ version: version(), bun: Bun.version }, 1);
  const ended = endedRequests(registry);
  const refused = new Counter({
    name: "tollgate_requests_refused_total",
    help: "Requests rejected before money was held, by endpoint and HTTP status.",
    labelNames: ["endpoint", "status"],
    registers: [registry],
  });
  const unknownFinishReasons = new Counter({
    name: "tollgate_unknown_finish_reasons_total",
    help: "Unknown finish reasons that providers sent. Clients receive stop or tool_calls instead.",
    labelNames: ["model"],
    registers: [registry],
  });
  const unpricedAnswers = new Counter({
    name: "tollgate_unpriced_answers_total",
    help: "Answers that cost more than the price of their model is for, by provider, its model and service: a service tier, a speed, a place, or web searches without a price.",
    labelNames: ["provider", "model", "service"],
    registers: [registry],
  });
  const retriesRefused = new Counter({
    name: "tollgate_retry_budget_refusals_total",
    help: "Third attempts that the retry budget refused.",
    registers: [registry],
  });
  const probes = new Counter({
    name: "tollgate_probes_total",
    help: "Tiny requests by which the gateway itself asks a route, by provider, its model and outcome. Nobody is charged for them.",
    labelNames: ["provider", "model", "outcome"],
    registers: [registry],
  });
  const spansLost = new Counter({
    name: "tollgate_spans_lost_total",
    help: "Spans that could not be sent to the trace collector.",
    registers: [registry],
  });
  const commits = new Histogram({
    name: "tollgate_store_commit_duration_seconds",
    help: "Time to commit one batch of writes to the database.",
    buckets: COMMIT_BUCKETS,
    registers: [registry],
  });
  const reloads = new Counter({
    name: "tollgate_config_reloads_total",
    help: "Config reloads by outcome: ok, or refused (the old config stays in force).",
    labelNames: ["outcome"],
    registers: [registry],
  });
  for (const outcome of ["ok", "refused"]) reloads.inc({ outcome }, 0);
  const show = liveFigures(registry);
  let figures: (() => LiveFigures) | undefined;
  return {
    requestEnded: quietly(ended),
    requestRefused: quietly((endpoint, status) => refused.inc({ endpoint, status })),
    unknownFinishReason: quietly((model) => unknownFinishReasons.inc({ model })),
    unpricedServed: quietly((served) => unpricedAnswers.inc(served)),
    probed: quietly(({ provider, model, outcome }) =>
      probes.inc({ provider, model, outcome: attemptOutcome(outcome) }),
    ),
    retryRefused: quietly(() => retriesRefused.inc()),
    committed: quietly((tookMs) => commits.observe(tookMs / 1000)),
    spansLost: quietly((count) => spansLost.inc(count)),
    reloaded: quietly((isTaken) => reloads.inc({ outcome: isTaken ? "ok" : "refused" })),
    watch(asked) {
      figures = asked;
    },
    contentType: registry.contentType,
    read() {
      if (figures) show(figures());
      return exposition(registry);
    },
  };
}

/**
 * Formats all metrics. It yields to the event loop after each one, because a thousand models have 80,000 lines. Metrics of
 * one scrape may therefore be of slightly different moments.
 */
async function exposition(registry: Registry): Promise<string> {
  const texts: string[] = [];
  for (const metric of registry.getMetricsAsArray()) {
    texts.push(await registry.getSingleMetricAsString(metric.name));
    await setImmediate();
  }
  return `${texts.join("\n\n")}\n`;
}

/** Ignores errors of a metric: a request must not fail because of it. */
function quietly<Args extends unknown[]>(record: (...args: Args) => void): (...args: Args) => void {
  return (...args) => {
    try {
      record(...args);
    } catch {
      // One value is lost.
    }
  };
}

/** Registers the metrics of settled requests. Returns the function that counts one. */
function endedRequests(registry: Registry): (request: EndedRequest) => void {
  const registers = [registry];
  const requests = new Counter({
    name: "tollgate_requests_total",
    help: "Requests for which money was held, by endpoint, model and outcome: done, failed, cancelled (the client disconnected, or the answer was cut after content).",
    labelNames: ["endpoint", "model", "outcome"],
    registers,
  });
  const durations = new Histogram({
    name: "tollgate_request_duration_seconds",
    help: "Time from the hold to the committed charge.",
    labelNames: ["endpoint", "model"],
    buckets: ANSWER_BUCKETS,
    registers,
  });
  const countAttempts = endedAttempts(registry);
  const countTokens = tokens(registry);
  const countMoney = money(registry);
  return (request) => {
    const { endpoint, model, status } = request;
    requests.inc({ endpoint, model, outcome: status });
    durations.observe({ endpoint, model }, request.durationMs / 1000);
    countAttempts(request);
    countTokens(request);
    countMoney(request);
  };
}

/** Counts attempts when their request is settled, so a stream that failed late counts as failed. */
function endedAttempts(registry: Registry): (request: EndedRequest) => void {
  const registers = [registry];
  const attempts = new Counter({
    name: "tollgate_attempts_total",
    help: "Attempts at providers, by provider, model and outcome: ok, status 429 and so on, or the kind of failure. Counted when the request ends.",
    labelNames: ["provider", "model", "outcome"],
    registers,
  });
  const durations = new Histogram({
    name: "tollgate_attempt_duration_seconds",
    help: "Time from the start of an attempt to the end of its answer or to its failure.",
    labelNames: ["provider", "model"],
    buckets: ANSWER_BUCKETS,
    registers,
  });
  const firstContents = new Histogram({
    name: "tollgate_time_to_first_content_seconds",
    help: "Streams only: time from the start of the attempt to the first content of the answer.",
    labelNames: ["provider", "model"],
    buckets: FIRST_CONTENT_BUCKETS,
    registers,
  });
  return ({ model, attempts: records, firstContentMs }) => {
    for (const { provider, outcome, durationMs } of records) {
      attempts.inc({ provider, model, outcome: attemptOutcome(outcome) });
      durations.observe({ provider, model }, durationMs / 1000);
    }
    const last = records.at(-1);
    if (firstContentMs === undefined || last === undefined) return;
    firstContents.observe({ provider: last.provider, model }, firstContentMs / 1000);
  };
}

function tokens(registry: Registry): (request: EndedRequest) => void {
  const tokens = new Counter({
    name: "tollgate_tokens_total",
    help: "Billed tokens by kind: input, cached_input, cache_write, cache_write_1h, output. Each token counts once.",
    labelNames: ["model", "kind"],
    registers: [registry],
  });
  const searches = new Counter({
    name: "tollgate_web_searches_total",
    help: "Billed web searches that providers ran.",
    labelNames: ["model"],
    registers: [registry],
  });
  return ({ model, usage }) => {
    const { promptTokens, cachedTokens, cacheWriteTokens, cacheWrite1hTokens } = usage;
    tokens.inc({ model, kind: "input" }, promptTokens - cachedTokens - cacheWriteTokens);
    tokens.inc({ model, kind: "cached_input" }, cachedTokens);
    tokens.inc({ model, kind: "cache_write" }, cacheWriteTokens - cacheWrite1hTokens);
    tokens.inc({ model, kind: "cache_write_1h" }, cacheWrite1hTokens);
    tokens.inc({ model, kind: "output" }, usage.completionTokens);
    searches.inc({ model }, usage.webSearches);
  };
}

function money(registry: Registry): (request: EndedRequest) => void {
  const registers = [registry];
  const charged = new Counter({
    name: "tollgate_charged_roubles_total",
    help: "Roubles charged. A float for graphs; the ledger has the exact amounts.",
    labelNames: ["model"],
    registers,
  });
  const writtenOff = new Counter({
    name: "tollgate_written_off_roubles_total",
    help: "Roubles written off because neither the hold nor the balance covered them. A float for graphs.",
    labelNames: ["model"],
    registers,
  });
  const estimates = new Counter({
    name: "tollgate_estimates_total",
    help: "Requests charged by an estimate because the provider reported no usable usage.",
    labelNames: ["model"],
    registers,
  });
  return ({ model, charge, writeOff, estimated }) => {
    charged.inc({ model }, roubles(charge));
    writtenOff.inc({ model }, roubles(writeOff));
    estimates.inc({ model }, estimated ? 1 : 0);
  };
}

/** A figure without a value is left out: SQLite has no replicas, and PostgreSQL's files are not on this machine. */
type LiveFigure = readonly [
  name: string,
  help: string,
  value: (figures: LiveFigures) => number | undefined,
];

const LIVE_GAUGES: readonly LiveFigure[] = [
  ["tollgate_open_requests", "Requests in progress, streams included.", (now) => now.openRequests],
  ["tollgate_open_streams", "Streamed answers in progress.", (now) => now.openStreams],
  [
    "tollgate_store_log_bytes",
    "Size of the write-ahead log of the database in bytes. Some megabytes are normal.",
    (now) => now.walBytes,
  ],
  [
    "tollgate_store_free_bytes",
    "Bytes that the gateway may still write to the disk of the database.",
    (now) => now.freeBytes,
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
  ],
  [
    "tollgate_store_locked",
    "1 while another process keeps the database locked, else 0. The gateway refuses requests and recovers by itself.",
    (now) => (now.blockedBy === "busy" ? 1 : 0),
  ],
  [
    "tollgate_store_unreachable",
    "1 while the PostgreSQL server cannot be reached or refuses this replica, else 0. It refuses requests and recovers by itself.",
    ({ replica, blockedBy }) => replica && (blockedBy === "unreachable" ? 1 : 0),
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
  ],
  [
    "tollgate_database_clock_skew_seconds",
    "The clock of the PostgreSQL server less that of this machine, at the last heartbeat. More than 2 or less than -2 is logged.",
    ({ replica }) => (replica?.clockSkewMs === undefined ? undefined : replica.clockSkewMs / 1000),
  ],
  [
    "tollgate_replicas_live",
    "Replicas on the same database with a heartbeat in the last 15 s, this one included.",
    ({ replica }) => replica?.liveReplicas,
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
  ],
  [
    "tollgate_tls_certificate_expiry_timestamp_seconds",
    "When the TLS certificate of the public listener expires, Unix time. A reload that renews it changes the figure.",
    ({ certificateExpiresAt }) => certificateExpiresAt && certificateExpiresAt / 1000,
  ],
];

/** They begin at 0 with the gateway. */
const LIVE_COUNTERS: readonly LiveFigure[] = [
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
];

/** Registers the live figures. Returns the function that sets them. */
function liveFigures(registry: Registry): (figures: LiveFigures) => void {
  const registers = [registry];
  const figuresOf = (Kind: typeof Gauge | typeof Counter, all: readonly LiveFigure[]) =>
    all.map(([name, help, read]) => [new Kind({ name, help, registers }), read] as const);
  const live = [...figuresOf(Gauge, LIVE_GAUGES), ...figuresOf(Counter, LIVE_COUNTERS)];
  const breakers = new Gauge({
    name: "tollgate_breaker_state",
    help: "Circuit breaker of a route, by provider and its model: 0 closed (healthy), 1 half-open (one probe at a time), 2 open (the gateway skips the route).",
    labelNames: ["provider", "model"],
    registers,
  });
  const notices = new Gauge({
    name: "tollgate_notices",
    help: "Conditions that a person should know, by type, as notices have them: how many accounts are low, keys expire soon, routes are refused. Those of the database are up to a minute old.",
    labelNames: ["type"],
    registers,
  });
  return (figures) => {
    for (const [type, count] of Object.entries(figures.notices ?? {})) notices.set({ type }, count);
    for (const [metric, read] of live) {
      metric.remove();
      const value = read(figures);
      if (value !== undefined) metric.inc(value);
    }
    // A reload may have removed routes.
    breakers.reset();
    for (const { provider, model, state } of figures.breakers) {
      breakers.set({ provider, model }, BREAKER_VALUES[state]);
    }
  };
}

/** A float for graphs only. Money is never computed with it. */
function roubles(nano: bigint): number {
  return Number(nano) / Number(NANO_ROUBLES_PER_ROUBLE);
}

/**
 * prom-client's default metrics whose values are right under Bun 1.4.5. Left out: handles and garbage collections (always
 * 0), the data segment (Bun reserves gigabytes that it does not use), V8's heap spaces, Node's version, and the minimum
 * and mean lag (9e9 or NaN for two scrapes in a row).
 */
const TRUE_DEFAULTS = /^(?:process_(?!heap_)|nodejs_eventloop_lag_(?:seconds|max|p\d\d))/;

/**
 * prom-client's own heap metrics are wrong under Bun 1.4.5 (the total is smaller than the used part). These replace them
 * under the usual names.
 */
const MEMORY_GAUGES = [
  ["nodejs_heap_size_used_bytes", "Heap memory in use, in bytes.", "heapUsed"],
  [
    "nodejs_external_memory_bytes",
    "Memory that heap objects use outside the heap, in bytes.",
    "external",
  ],
] as const;

function collectProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray()) {
    if (!TRUE_DEFAULTS.test(name)) registry.removeSingleMetric(name);
  }
  for (const [name, help, part] of MEMORY_GAUGES) {
    const collect = function (this: Gauge): void {
      this.set(process.memoryUsage()[part]);
    };
    registry.registerMetric(new Gauge({ name, help, collect, registers: [] }));
  }
}

/** Statuses with a label of their own. All others are counted by their class, such as `status 5xx`. */
const STATUSES = new Set([
  400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529,
]);

/**
 * The outcome of an attempt as a label: `ok` or an UpstreamOutcome. The number of different labels is bounded whatever a
 * provider answers.
 */
export function attemptOutcome(outcome: string): string {
  const status = /^status (\d)\d\d$/.exec(outcome);
  if (!status || STATUSES.has(Number(outcome.slice("status ".length)))) return outcome;
  return `status ${status[1]}xx`;
}
