import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { exists, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { helloEvent, usual } from "../support/provider/chatAnswers.ts";
import { chat, openChat } from "../support/gateway/chatCalls.ts";
import { configText, oneModel } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { scrape } from "../support/gateway/scrape.ts";
import { piece, raw, startProvider, streamHead } from "../support/provider/scriptedProvider.ts";

const provider = startProvider(usual);
const providerUrl = `http://127.0.0.1:${provider.port}/v1`;

afterAll(() => provider.stop());

const addressOf = async (gateway: GatewayProcess): Promise<string> => {
  const line = await gateway.logged(
    "it shows metrics",
    ({ msg }) => msg === "listening for metrics",
  );
  return String(line["address"]);
};

describe("a gateway with metrics", () => {
  let gateway: GatewayProcess;
  let address: string;

  beforeAll(async () => {
    const metrics = { listen: "127.0.0.1:0" };
    gateway = await startGatewayProcess(oneModel(providerUrl, { metrics }));
    address = await addressOf(gateway);
  }, startTimeoutMs);
  afterAll(() => gateway.close());

  test("shows them on a listener of their own, and neither account nor key", async () => {
    const key = await gateway.key("canary-account", "1");
    expect((await chat(gateway, { key })).status).toBe(200);
    expect((await chat(gateway, { key: "wrong" })).status).toBe(401);
    const found = await scrape(`${address}/metrics`);
    const done = { endpoint: "chat", model: "small", outcome: "done" };
    expect(found.value("tollgate_requests_total", done)).toBe(1);
    const refused = { endpoint: "chat", status: "401" };
    expect(found.value("tollgate_requests_refused_total", refused)).toBe(1);
    const { stdout: version } = await gateway.cli.run("--version");
    const built = { version, bun: Bun.version };
    expect(found.value("tollgate_build_info", built)).toBe(1);
    expect(found.value("tollgate_store_commit_duration_seconds_count")).toBeGreaterThan(0);
    expect(found.value("process_cpu_seconds_total")).toBeGreaterThan(0);
    expect(found.value("process_open_fds")).toBeGreaterThan(3);
    expect(found.types["nodejs_eventloop_lag_p99_seconds"]).toBe("gauge");
    for (const secret of ["canary", key]) expect(found.text).not.toContain(secret);
    expect((await fetch(`${gateway.url}/metrics`)).status).toBe(404);
    expect((await fetch(`${address}/healthz`)).status).toBe(404);
  });

  test("whose metrics address is in use does not start, and reports it", async () => {
    const listen = address.replace("http://", "");
    const sections = { metrics: { listen }, database: { path: "other.db" } };
    const file = join(gateway.cli.folder, "other.toml");
    await Bun.write(file, configText(oneModel(providerUrl, sections)));
    const { status, stderr } = await gateway.cli.run("serve", "--config", file);
    expect(status).toBe(1);
    expect(stderr).toBe(
      `error: cannot listen for metrics on ${listen}: the address is in use: stop the other program, or use another address`,
    );
  });
});

test(
  "metrics are shown to the end while a gateway drains",
  async () => {
    const stalled = startProvider(raw(streamHead, piece(helloEvent)));
    const metrics = { listen: "127.0.0.1:0" };
    const config = oneModel(`http://127.0.0.1:${stalled.port}/v1`, { metrics });
    const gateway = await startGatewayProcess(config);
    try {
      const address = await addressOf(gateway);
      const reply = await openChat(gateway, { key: await gateway.key("a", "1") }, { stream: true });
      await reply.seen("Hello");
      gateway.signal("SIGTERM");
      await gateway.logged("it drains", ({ msg }) => msg === "draining");
      const draining = await scrape(`${address}/metrics`);
      expect(draining.value("tollgate_open_streams")).toBe(1);
      reply.disconnect();
      expect(await gateway.ended).toBe(0);
    } finally {
      await gateway.close();
      stalled.stop();
    }
  },
  startTimeoutMs,
);

test(
  "metrics on a unix socket are readable by their owner only, and an old socket is replaced",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "tollgate-metrics-"));
    const socket = join(folder, "metrics.sock");
    const metrics = { listen: `unix:${socket}` };
    const gateway = await startGatewayProcess(oneModel(providerUrl, { metrics }));
    try {
      expect(await addressOf(gateway)).toBe(socket);
      expect(((await stat(socket)).mode & 0o777).toString(8)).toBe("600");
      await gateway.kill();
      expect(await exists(socket)).toBe(true);
      await gateway.start();
      const found = await scrape("http://localhost/metrics", { unix: socket });
      expect(found.value("tollgate_open_requests")).toBe(0);
    } finally {
      await gateway.close();
      await rm(folder, { recursive: true, force: true });
    }
  },
  startTimeoutMs,
);
