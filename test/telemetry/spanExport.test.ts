import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { loadTracing } from "../../src/commands/serve/gatewayServer.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { systemRandom } from "../../src/lib/random.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { silentMetrics } from "../../src/telemetry/metrics.ts";
import type { Tracing } from "../../src/telemetry/tracing.ts";
import { startCollector, type TestCollector } from "../support/gateway/collector.ts";
import { until } from "../support/until.ts";

const WAITING_SPANS_MAX = 4096;
const DOWN = "the trace collector does not accept spans: some may be lost";
const UP = "the trace collector accepts spans again";

let collector: TestCollector;
let tracing: Tracing;
let lost: number;
let lines: Record<string, unknown>[];
const log = createLog({ level: "info", format: "json" }, (written) => {
  for (const line of written.trim().split("\n"))
    lines.push(JSON.parse(line) as Record<string, unknown>);
});

const start = async (otlp: string): Promise<Tracing> => {
  const metrics = { ...silentMetrics, spansLost: (count: number) => void (lost += count) };
  const headers = { authorization: "Bearer canary", "x-tenant": "tollgate" };
  const startTracing = await loadTracing({ otlp, headers });
  return startTracing({ clock: systemClock, random: systemRandom, log, metrics });
};

beforeEach(async () => {
  lost = 0;
  lines = [];
  collector = startCollector();
  tracing = await start(collector.url);
});
afterEach(async () => {
  await tracing.close();
  collector.stop();
  log.flush();
});

const record = (count: number): void => {
  for (let index = 0; index < count; index += 1) {
    const span = tracing.startRequest({
      requestId: `req_${index}`,
      endpoint: "chat",
      method: "POST",
      path: "/v1/chat/completions",
      isSecure: false,
      traceparent: null,
      tracestate: null,
    });
    span.end(200);
    span.end(200);
  }
};

const logged = (message: string): Record<string, unknown>[] => {
  log.flush();
  return lines.filter(({ msg }) => msg === message);
};

describe("spans", () => {
  test("are sent in batches to /v1/traces, with the configured headers, each once", async () => {
    record(1100);
    await until("the spans", () => collector.spans.length === 1100);
    expect(collector.latest?.path).toBe("/v1/traces");
    const headers = Object.fromEntries(collector.latest?.headers ?? []);
    expect(headers).toMatchObject({
      "content-type": "application/json",
      authorization: "Bearer canary",
      "x-tenant": "tollgate",
    });
    expect(headers["user-agent"]).toStartWith("tollgate/");
    expect(collector.bodies[0]).toContain('"service.name"');
    expect(collector.requestCount).toBe(3);
    const ids = new Set(collector.spans.map(({ spanId }) => spanId));
    expect(ids.size).toBe(1100);
  });

  test("are sent when the gateway stops, without delay", async () => {
    record(600);
    await tracing.close();
    expect(collector.spans).toHaveLength(600);
    expect(lost).toBe(0);
  });

  test("below a path of the base address", async () => {
    await tracing.close();
    tracing = await start(`${collector.url}/otlp`);
    record(1);
    await tracing.close();
    expect(collector.latest?.path).toBe("/otlp/v1/traces");
  });
});

describe("while the collector is down", () => {
  test.each([429, 503])(
    "with status %i spans wait, and one warning is logged",
    async (status) => {
      collector.status = status;
      record(10);
      await until("two tries", () => collector.requestCount >= 2);
      collector.status = 200;
      await until("the spans", () => collector.spans.length === 10);
      await until("the end is logged", () => logged(UP).length === 1);
      expect(logged(DOWN)).toMatchObject([{ level: "warn", address: collector.url, status }]);
      expect(logged(UP)).toMatchObject([{ level: "info", count: 0 }]);
      expect(lost).toBe(0);
    },
    10_000,
  );

  test("and nothing listens, the gateway stops at once, and counts what is lost", async () => {
    collector.stop();
    record(5);
    const startedMs = performance.now();
    await tracing.close();
    expect(performance.now() - startedMs).toBeLessThan(2000);
    expect(logged(DOWN)).toMatchObject([{ error: "ConnectionError refused < Error ECONNREFUSED" }]);
    expect(lost).toBe(5);
  });

  test("and does not answer, the gateway stops within seconds", async () => {
    collector.status = undefined;
    record(5);
    const startedMs = performance.now();
    await tracing.close();
    expect(performance.now() - startedMs).toBeLessThan(5000);
    expect(lost).toBe(5);
  });

  test("the spans above the limit are lost and counted", async () => {
    collector.status = 503;
    record(WAITING_SPANS_MAX + 100);
    expect(lost).toBe(100);
    expect(logged(DOWN)).toHaveLength(1);
    collector.status = 200;
    await until("the end is logged", () => logged(UP).length === 1);
    expect(collector.spans).toHaveLength(WAITING_SPANS_MAX);
    expect(logged(UP)).toMatchObject([{ count: 100 }]);
  });

  test("a batch that it refuses for good is lost, and is not sent again", async () => {
    collector.status = 400;
    record(7);
    await until("the refusal", () => lost === 7);
    expect(logged(DOWN)).toMatchObject([{ status: 400 }]);
    collector.status = 200;
    record(1);
    await until("the next span", () => collector.spans.length === 1);
    expect(collector.requestCount).toBe(2);
  });

  test("its headers are in no log line", () => {
    record(1);
    log.flush();
    expect(JSON.stringify(lines)).not.toContain("canary");
  });
});
