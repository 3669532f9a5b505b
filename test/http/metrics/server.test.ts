import { describe, expect, test } from "bun:test";
import { answered, choice } from "../../support/provider/chatAnswers.ts";
import { ask, call, chat } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import { scrape } from "../../support/gateway/scrape.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";

const at = openOneModelBefore({ metrics: { listen: "127.0.0.1:0" } });

const origin = () => new URL("/", at.gateway.metricsUrl).href;

describe("the metrics listener", () => {
  test("answers GET and HEAD /metrics with no-store", async () => {
    const answer = await fetch(at.gateway.metricsUrl);
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/plain; version=0.0.4; charset=utf-8",
      "cache-control": "no-store",
    });
    expect(await answer.text()).toContain("# TYPE tollgate_requests_total counter\n");
    const head = await fetch(at.gateway.metricsUrl, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
  });

  test.each([
    ["GET", ""],
    ["GET", "metrics/"],
    ["GET", "Metrics"],
    ["GET", "healthz"],
    ["GET", "v1/models"],
    ["POST", "metrics"],
    ["PUT", "metrics"],
    ["DELETE", "metrics"],
    ["OPTIONS", "metrics"],
  ])("answers %s /%s with 404", async (method, path) => {
    const answer = await fetch(origin() + path, { method });
    expect([answer.status, await answer.text()]).toEqual([404, "not found\n"]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  test.each(["x", "gw:80"])("has no metrics on deeper paths for the Host %j", async (host) => {
    const ask = (path: string) => fetch(origin() + path, { headers: { host } });
    expect((await ask("metrics")).status).toBe(200);
    for (const path of ["a/metrics", "ab/metrics", "abc/metrics"]) {
      expect([path, (await ask(path)).status]).toEqual([path, 404]);
    }
  });

  test("is separate: the public listener has no metrics", async () => {
    const answer = await call(at.gateway, await at.gateway.key(), { path: "/metrics" });
    expect(answer.status).toBe(404);
  });
});

describe("the metrics", () => {
  test("have names, types and units by the Prometheus rules", async () => {
    at.provider.answer = answered();
    await chat(at.gateway, await at.gateway.key());
    const { samples, types } = await scrape(at.gateway.metricsUrl);
    expect(Object.keys(types).length).toBeGreaterThan(20);
    for (const [name, type] of Object.entries(types)) {
      expect(name).toMatch(/^(?:tollgate|process|nodejs)(?:_[a-z0-9]+)+$/);
      expect([name, name.endsWith("_total")]).toEqual([name, type === "counter"]);
      expect(name).not.toMatch(/milli|_ms|kilo|_mb|rub_/);
      if (type === "histogram") expect(name).toEndWith("_seconds");
    }
    const untyped = samples
      .map(({ name }) => name)
      .filter((name) => types[name] === undefined)
      .filter((name) => types[name.replace(/_(?:bucket|sum|count)$/, "")] !== "histogram");
    expect(untyped).toEqual([]);
  });

  test("show the version and the process", async () => {
    const before = await scrape(at.gateway.metricsUrl);
    const version = { version: "dev", bun: Bun.version };
    expect(before.value("tollgate_build_info", version)).toBe(1);
    expect(before.value("process_open_fds")).toBeGreaterThan(3);
    expect(before.value("process_resident_memory_bytes")).toBeGreaterThan(1e7);
    expect(before.value("nodejs_heap_size_used_bytes")).toBeGreaterThan(1e6);
    expect(before.value("nodejs_external_memory_bytes")).toBeGreaterThan(0);
    // Bun reports a total that is less than the used part.
    expect(before.all("nodejs_heap_size_total_bytes")).toEqual([]);
    const started = process.cpuUsage();
    const usedMicroseconds = (): number => {
      const { user, system } = process.cpuUsage(started);
      return user + system;
    };
    while (usedMicroseconds() < 150_000);
    await Bun.sleep(30);
    const after = await scrape(at.gateway.metricsUrl);
    expect(after.value("nodejs_eventloop_lag_max_seconds")).toBeWithin(0.1, 5);
    const cpu = "process_cpu_seconds_total";
    expect(after.value(cpu) - before.value(cpu)).toBeWithin(0.05, 5);
  });

  test("contain no key, account, prompt, answer or text of a client or provider", async () => {
    const key = await at.gateway.key({ account: "canary-of-the-account" });
    const messages = [{ role: "user", content: "canary-of-the-prompt" }];
    const headers = { "user-agent": "canary-of-the-agent" };
    at.provider.answer = answered({
      model: "canary-of-a-model",
      choices: [choice({ content: "canary-of-the-answer" })],
    });
    expect((await call(at.gateway, key, { body: ask({ messages }), headers })).status).toBe(200);
    at.provider.answer = refusal(418, "canary-of-the-provider");
    expect((await chat(at.gateway, key, { messages })).status).toBe(502);
    expect((await chat(at.gateway, key, { model: "canary-of-a-model" })).status).toBe(404);
    expect((await chat(at.gateway, { key: "sk-tg-canary-of-a-key" })).status).toBe(401);
    expect((await call(at.gateway, key, { path: "/canary-of-a-path" })).status).toBe(404);
    const found = await scrape(at.gateway.metricsUrl);
    for (const secret of ["canary", key.key, key.id, key.account, upstreamKey, "127.0.0.1"]) {
      expect([secret, found.text.includes(secret)]).toEqual([secret, false]);
    }
    const outcomes = found.all("tollgate_attempts_total").map(({ labels }) => labels["outcome"]);
    expect(outcomes).toContain("status 4xx");
  });
});
