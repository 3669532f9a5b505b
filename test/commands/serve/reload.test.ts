import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Config } from "../../../src/config/schema.ts";
import type { RunningGateway } from "../../../src/commands/serve/gatewayServer.ts";
import { neededRestarts, reload } from "../../../src/commands/serve/serve.ts";
import { operatorRecipients } from "../../../src/notices/recipients.ts";
import { configText, oneModel } from "../../support/gateway/gatewayConfig.ts";
import { growth } from "../../support/gateway/scrape.ts";
import { openTestApp, type TestApp } from "../../support/gateway/testApp.ts";

const metrics = { listen: "127.0.0.1:0" };
const api = { allowed_tools: ["web_search"] };
const config = oneModel("http://127.0.0.1:9/v1", { metrics, api });
const refused = "config rejected, the old config stays in force";

let gateway: TestApp;
let file: string;
let startedWith: Config;
beforeAll(async () => {
  gateway = await openTestApp(config);
  startedWith = gateway.app.gateway.current.config;
  file = join(dirname(gateway.path), "next.toml");
});
afterAll(() => gateway.close());

/** Reloads from this text and returns the log lines. */
async function reloaded(text: string, changes: Partial<RunningGateway> = {}): Promise<object[]> {
  await writeFile(file, text);
  const since = gateway.log.length;
  const { app } = gateway;
  const server: RunningGateway = {
    startedWith,
    log: app.gateway.log,
    broken: new Promise<never>(() => {}),
    reload: (next) => app.reload(next),
    reloaded: (isTaken) => app.gateway.metrics.reloaded(isTaken),
    stop: () => Promise.resolve(),
    ...changes,
  };
  reload(server, file);
  return gateway.log.slice(since);
}

test.each([
  ["is empty", "", "has no [[models]]"],
  [
    "ends before its models",
    '[[providers]]\nid = "local"\nbase_url = "http://127.0.0.1:9/v1"\n',
    "has no [[models]]",
  ],
  ["is not TOML", "[server", "line 1"],
  [
    "names a variable that the gateway did not start with",
    configText({
      ...config,
      providers: {
        local: { base_url: "http://127.0.0.1:9/v1", api_key: "${NEW_SINCE_THE_START}" },
      },
    }),
    "restart a gateway that started without it",
  ],
  [
    "has a proxy that cannot be used",
    configText({
      ...config,
      providers: { local: { base_url: "http://127.0.0.1:9/v1", proxy: "http://%zz:b@h:1" } },
    }),
    "providers[0].proxy",
  ],
])("a file that %s is rejected, and the old config stays in force", async (_, text, problem) => {
  const before = gateway.app.gateway.current;
  expect(await reloaded(text)).toMatchObject([
    { level: "error", msg: refused, problem: expect.stringContaining(problem) },
  ]);
  expect(gateway.app.gateway.current).toBe(before);
});

test("an unexpected error is logged with its class only, and the old config stays in force", async () => {
  const before = gateway.app.gateway.current;
  const failing = {
    reload(): never {
      throw new URIError("http://user:canary@host");
    },
  };
  expect(await reloaded(configText(config), failing)).toMatchObject([
    { level: "error", msg: refused, error: "URIError" },
  ]);
  expect(gateway.app.gateway.current).toBe(before);
  expect(gateway.logText()).not.toContain("canary");
});

test("a valid file takes effect", async () => {
  const before = gateway.app.gateway.current;
  expect(await reloaded(configText(config))).toMatchObject([{ msg: "config reloaded", count: 1 }]);
  expect(gateway.app.gateway.current).not.toBe(before);
});

test("a reload changes who gets notices, and needs no restart", async () => {
  const to = (email: string): object => ({ kind: "email", to: email });
  for (const email of ["one@example.com", "two@example.com"]) {
    const notify = { smtp: "smtp://localhost:2525", from: "tollgate@example.com", email };
    const changed = configText({ ...config, sections: { metrics, api, notify } });
    expect(await reloaded(changed)).toMatchObject([{ msg: "config reloaded" }]);
    const { notify: inForce } = gateway.app.gateway.current.config;
    expect(operatorRecipients(inForce)).toMatchObject([to(email)]);
  }
});

const unit =
  "; write the unit of the service again (remove it, then `tollgate service install` and `systemctl daemon-reload`) before the restart";
test.each([
  ["server.listen", { server: { listen: "127.0.0.1:1" } }, unit],
  ["server.drain_delay", { server: { drain_delay: "1s" } }, unit],
  ["server.shutdown_grace", { server: { shutdown_grace: "1s" } }, unit],
  ["database.path", { database: { path: "other.db" } }, unit],
  ["database.durability", { database: { durability: "power" } }, ""],
  ["log.level", { log: { level: "warn" } }, ""],
  ["log.format", { log: { format: "pretty" } }, ""],
  ["metrics.listen", { metrics: { listen: "127.0.0.1:2" } }, unit],
  ["telemetry.otlp", { telemetry: { otlp: "http://127.0.0.1:1" } }, ""],
] as const)(
  "each reload warns that a change of %s needs a restart",
  async (key, sections, more) => {
    const changed = configText({ ...config, sections: { metrics, api, ...sections } });
    const problem = `${key}: changed, and takes effect only after a restart${more}`;
    for (const _ of ["first", "again"]) {
      expect(await reloaded(changed)).toMatchObject([
        { msg: "config reloaded" },
        { level: "warn", msg: "config warning", problem },
      ]);
    }
  },
);

test("a reload warns that removed metrics need a restart", async () => {
  expect(await reloaded(configText({ ...config, sections: { api } }))).toMatchObject([
    { msg: "config reloaded" },
    { problem: expect.stringMatching(/^metrics\.listen: /) },
  ]);
});

test("a change of the URLs of servers needs a restart, and is told without them", () => {
  const on = (password: string, urlFile?: string): Config => ({
    ...startedWith,
    database: {
      engine: "postgres",
      url: `postgres://gate:${password}@db/toll`,
      shownUrl: "postgres://gate@db/toll",
      urlFile,
      reports: undefined,
      keepRequestsMs: startedWith.database.keepRequestsMs,
    },
    limits: {
      ...startedWith.limits,
      redis: { url: `redis://:${password}@cache`, shownUrl: "redis://cache" },
    },
  });
  expect(neededRestarts(on("canary1"), on("canary1"))).toEqual([]);
  expect(neededRestarts(on("canary1"), on("canary2"))).toEqual([
    "database.url: changed, and takes effect only after a restart",
    "limits.redis: changed, and takes effect only after a restart",
  ]);
  // Each new connection reads the file again.
  expect(neededRestarts(on("canary1", "/url"), on("canary2", "/url"))).toEqual([
    "limits.redis: changed, and takes effect only after a restart",
  ]);
});

test("TLS on or off needs a restart, and so do the headers for a trace collector", () => {
  const on = (cert: string, headers: Readonly<Record<string, string>>): Config => ({
    ...startedWith,
    server: {
      ...startedWith.server,
      tls: { certFile: "/cert", keyFile: "/key", cert, key: "", expiresAt: 0 },
    },
    telemetry: { otlp: "http://collector:4318", headers },
  });
  const restart = "changed, and takes effect only after a restart";
  expect(neededRestarts(on("one", { a: "b" }), on("other", { a: "canary" }))).toEqual([
    `telemetry.headers: ${restart}`,
  ]);
  expect(neededRestarts(startedWith, on("one", {}))).toEqual([
    `server.tls_cert: ${restart}`,
    `telemetry.otlp: ${restart}`,
  ]);
});

test("successful and rejected reloads are counted", async () => {
  const { value } = await growth(gateway.metricsUrl, async () => {
    await reloaded(configText(config));
    await reloaded("[server");
    await reloaded("[server");
  });
  const reloads = "tollgate_config_reloads_total";
  expect(value(reloads, { outcome: "ok" })).toBe(1);
  expect(value(reloads, { outcome: "refused" })).toBe(2);
});
