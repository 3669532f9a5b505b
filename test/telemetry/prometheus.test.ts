import { noUsage } from "../../src/contract/usage.ts";
import { describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import { attemptOutcome, createPrometheusMetrics } from "../../src/telemetry/prometheus.ts";
import type { LiveFigures } from "../../src/telemetry/metrics.ts";
import { readScrape } from "../support/gateway/scrape.ts";
import { readSourceTree } from "../support/sourceTree.ts";

const rest: LiveFigures = {
  openRequests: 0,
  openStreams: 0,
  bodyBytes: 0,
  walBytes: 0,
  disconnectedAnswers: 0,
  held: 0n,
  queuedWrites: 0,
  blockedBy: undefined,
  breakers: [],
};

describe("the values that are read at each scrape", () => {
  test("the state of each breaker is a number, and a removed breaker is not shown", async () => {
    const metrics = createPrometheusMetrics();
    let breakers: LiveFigures["breakers"] = [
      { provider: "one", model: "a", state: "closed" },
      { provider: "one", model: "b", state: "half-open" },
      { provider: "two", model: "a", state: "open" },
    ];
    metrics.watch(() => ({ ...rest, breakers }));
    const states = async () => readScrape(await metrics.read()).all("tollgate_breaker_state");
    expect(await states()).toEqual([
      { labels: { provider: "one", model: "a" }, value: 0 },
      { labels: { provider: "one", model: "b" }, value: 1 },
      { labels: { provider: "two", model: "a" }, value: 2 },
    ]);
    breakers = [{ provider: "two", model: "a", state: "closed" }];
    expect(await states()).toEqual([{ labels: { provider: "two", model: "a" }, value: 0 }]);
  });

  test("two gateways in one process share no values", async () => {
    const [one, two] = [createPrometheusMetrics(), createPrometheusMetrics()];
    one.requestRefused("chat", 401);
    const name = "tollgate_requests_refused_total";
    expect(readScrape(await one.read()).all(name)).toHaveLength(1);
    expect(readScrape(await two.read()).all(name)).toEqual([]);
  });
});

test("a scrape yields to the event loop after each metric", async () => {
  const metrics = createPrometheusMetrics();
  let turns = 0;
  const turn = (): void => {
    turns += 1;
    next = setImmediate(turn);
  };
  let next = setImmediate(turn);
  const { types } = readScrape(await metrics.read());
  clearImmediate(next);
  expect(turns).toBeGreaterThan(Object.keys(types).length / 2);
});

test("a model id is a label without changes, whatever characters it has", async () => {
  const metrics = createPrometheusMetrics();
  const model = 'a "b" \\ {c="d"} 1';
  metrics.requestEnded({
    endpoint: "chat",
    model,
    status: "failed",
    usage: noUsage,
    estimated: false,
    charge: 0n,
    writeOff: 0n,
    cacheSaved: 0n,
    operatorSaved: null,
    provider: undefined,
    attempts: [],
    durationMs: 5,
    firstContentMs: undefined,
  });
  const [sample] = readScrape(await metrics.read()).all("tollgate_requests_total");
  const written = model.replaceAll("\\", "\\\\").replaceAll('"', '\\"');
  expect(sample?.labels["model"]).toBe(written);
});

test("the figures of a limits server are left out without one", async () => {
  const shown = async (sharedLimits: LiveFigures["sharedLimits"]) => {
    const metrics = createPrometheusMetrics();
    metrics.watch(() => ({ ...rest, sharedLimits }));
    const text = await metrics.read();
    return [...text.matchAll(/^tollgate_limits_\w+ \d+$/gm)].map(([line]) => line);
  };
  expect(await shown(undefined)).toEqual([]);
  expect(await shown({ isUsed: true, byShare: 3 })).toEqual([
    "tollgate_limits_server_used 1",
    "tollgate_limits_by_share_total 3",
  ]);
  expect(await shown({ isUsed: false, byShare: 4 })).toEqual([
    "tollgate_limits_server_used 0",
    "tollgate_limits_by_share_total 4",
  ]);
});

test("a value that cannot be counted is dropped without an error", () => {
  const metrics = createPrometheusMetrics();
  expect(() => metrics.committed(Number.NaN)).not.toThrow();
});

describe("the outcome of an attempt", () => {
  test.each([
    ["ok", "ok"],
    ["client disconnected", "client disconnected"],
    ["status 429", "status 429"],
    ["status 418", "status 4xx"],
    ["status 599", "status 5xx"],
    ["status 301", "status 3xx"],
  ])("%j is the label %j", (outcome, label) => {
    expect(attemptOutcome(outcome)).toBe(label);
  });
});

test("a gateway without metrics does not load their library: nothing imports it statically", async () => {
  const files = await readSourceTree(resolve(import.meta.dir, "../.."), "src");
  const transpiler = new Bun.Transpiler({ loader: "ts" });
  // Pages, which this does not read, import nothing of the gateway.
  const sources = files.filter(({ path }) => path.endsWith(".ts"));
  const imports = sources.flatMap(({ source }) =>
    transpiler.scanImports(source).filter(({ path }) => path.endsWith("/prometheus.ts")),
  );
  expect(new Set(imports.map(({ kind }) => kind))).toEqual(new Set(["dynamic-import"]));
});
