import { setImmediate } from "node:timers/promises";
import {
  AggregatorRegistry,
  Counter,
  Gauge,
  Histogram,
  Registry,
  collectDefaultMetrics,
} from "prom-client";
import { billedCount, figures, isCounter } from "../contract/figures.ts";
import { version } from "../lib/version.ts";
import { EVENTS, type EventRow, LIVE, roubles, tokenKind } from "./metricRows.ts";
import type { EndedRequest, LiveFigures, MetricValues, ReadableMetrics } from "./metrics.ts";

type EventMetric<Row extends EventRow> = Row extends readonly [...unknown[], readonly number[]]
  ? Histogram<Row[1][number]>
  : Counter<Row[1][number]>;
type EventMetrics = { readonly [Key in keyof typeof EVENTS]: EventMetric<(typeof EVENTS)[Key]> };

/** Creates the Prometheus metrics. This module is loaded only if `[metrics]` is configured, to keep the start fast. */
export function createPrometheusMetrics(): ReadableMetrics {
  const registry = new Registry();
  collectProcessMetrics(registry);
  new Gauge({
    name: "tollgate_build_info",
    help: "Always 1. The labels version and bun name the running versions; version has the commit, such as 0.2.0+0a1b2c3d.",
    labelNames: ["version", "bun"],
    aggregator: "first",
    registers: [registry],
  }).set({ version: version(), bun: Bun.version }, 1);
  const events = eventMetrics(registry);
  for (const outcome of ["ok", "refused"]) events.reloads.inc({ outcome }, 0);
  const show = liveFigures(registry);
  let live: (() => LiveFigures) | undefined;
  return {
    requestEnded: quietly((request) => countEnded(events, request)),
    requestRefused: quietly((endpoint, status) => events.refused.inc({ endpoint, status })),
    unknownFinishReason: quietly((model) => events.unknownFinishReasons.inc({ model })),
    unpricedServed: quietly((served) => events.unpricedAnswers.inc(served)),
    probed: quietly(({ provider, model, outcome }) =>
      events.probes.inc({ provider, model, outcome: attemptOutcome(outcome) }),
    ),
    retryRefused: quietly(() => events.retriesRefused.inc()),
    committed: quietly((tookMs) => events.commits.observe(tookMs / 1000)),
    spansLost: quietly((count) => events.spansLost.inc(count)),
    reloaded: quietly((isTaken) => events.reloads.inc({ outcome: isTaken ? "ok" : "refused" })),
    watch(asked) {
      live = asked;
    },
    contentType: registry.contentType,
    values() {
      if (live) show(live());
      return registry.getMetricsAsJSON();
    },
    read() {
      if (live) show(live());
      return exposition(registry);
    },
  };
}

/** The metrics of several processes of one gateway, added up, in Prometheus' text format. */
export async function exposeAll(values: readonly MetricValues[]): Promise<string> {
  return await exposition(addedUp(values));
}

/** What processes that have ended leave: counters and histograms must never fall. */
export async function leftBy(values: readonly MetricValues[]): Promise<MetricValues> {
  const all = await addedUp(values).getMetricsAsJSON();
  return all.filter(({ type }) => KEPT_TYPES.includes(String(type)));
}

const KEPT_TYPES: readonly string[] = ["counter", "histogram"];

function addedUp(values: readonly MetricValues[]): Registry {
  return AggregatorRegistry.aggregate(values.map((one) => [...one]));
}

function eventMetrics(registry: Registry): EventMetrics {
  const rows: [string, EventRow][] = Object.entries(EVENTS);
  const metrics = rows.map(([key, [name, labelNames, help, buckets]]) => {
    const options = { name, help, labelNames, registers: [registry] };
    return [key, buckets ? new Histogram({ ...options, buckets }) : new Counter(options)];
  });
  return Object.fromEntries(metrics) as EventMetrics;
}

/** Counts a settled request. Its attempts are counted now, so a stream that failed late counts as failed. */
function countEnded(events: EventMetrics, request: EndedRequest): void {
  const { endpoint, model, status, attempts, usage, provider = "" } = request;
  events.requests.inc({ endpoint, model, outcome: status });
  events.requestDurations.observe({ endpoint, model }, request.durationMs / 1000);
  for (const { provider, outcome, durationMs } of attempts) {
    events.attempts.inc({ provider, model, outcome: attemptOutcome(outcome) });
    events.attemptDurations.observe({ provider, model }, durationMs / 1000);
  }
  const last = attempts.at(-1);
  if (request.firstContentMs !== undefined && last !== undefined)
    events.firstContents.observe({ provider: last.provider, model }, request.firstContentMs / 1000);
  for (const figure of figures) {
    const count = billedCount(usage, figure.name);
    // A rare figure has no line before its first count.
    if (count === 0 && "isRare" in figure) continue;
    if (isCounter(figure)) events[figure.name].inc({ model }, count);
    else events.tokens.inc({ model, provider, kind: tokenKind(figure) }, count);
  }
  const savings = { account: request.cacheSaved, operator: request.operatorSaved };
  for (const [payer, saved] of Object.entries(savings)) {
    if (saved === null) continue;
    // A counter never falls.
    const counter = saved < 0n ? events.cacheLost : events.cacheSaved;
    counter.inc({ model, provider, payer }, Math.abs(roubles(saved)));
  }
  events.charged.inc({ model }, roubles(request.charge));
  events.writtenOff.inc({ model }, roubles(request.writeOff));
  events.estimates.inc({ model }, request.estimated ? 1 : 0);
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

/** Registers the live figures. Returns the function that sets them. */
function liveFigures(registry: Registry): (figures: LiveFigures) => void {
  const registers = [registry];
  const live = LIVE.map(([name, help, read, labelNames = [], ofProcesses]) => {
    const Kind = name.endsWith("_total") ? Counter : Gauge;
    const aggregator = ofProcesses ?? ("sum" as const);
    const metric = new Kind({ name, help, labelNames, aggregator, registers });
    // The main process of several has none of these figures, and a 0 of it would count.
    if (labelNames.length === 0) metric.remove();
    return [metric, read] as const;
  });
  return (figures) => {
    for (const [metric, read] of live) {
      const value = read(figures);
      // A reload may have removed routes.
      metric.reset();
      if (value === undefined) metric.remove();
      else if (typeof value === "number") metric.inc(value);
      else for (const [labels, amount] of value) metric.inc(labels, amount);
    }
  };
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
  // prom-client leaves it out where it adds processes up. The main process is the oldest.
  const start = registry.getSingleMetric("process_start_time_seconds");
  if (start) Object.assign(start, { aggregator: "min" });
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
