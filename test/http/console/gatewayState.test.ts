import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../../src/config/load.ts";
import type { ConfigReport } from "../../../src/contract/operator/configReport.ts";
import type { ProviderReport } from "../../../src/contract/operator/providerReport.ts";
import { createMetricsServer } from "../../../src/http/server.ts";
import { createPrometheusMetrics } from "../../../src/telemetry/prometheus.ts";
import { openSilentPort } from "../../support/provider/silentPort.ts";
import { configText, oneModel, type Section } from "../../support/gateway/gatewayConfig.ts";
import { openConsole } from "../../support/gateway/consoleUnderTest.ts";
import { openStoreFolder, type StoreFolder } from "../../support/store/storeFolder.ts";

let folder: string;
let storeFolder: StoreFolder;
const breakers = [
  { provider: "local", model: "small", state: "open" },
  { provider: "local", model: 'a "quoted" \\ name\nof two lines', state: "half-open" },
  { provider: "other", model: "small", state: "closed" },
] as const;
const metrics = createPrometheusMetrics();
metrics.watch(() => ({
  openRequests: 0,
  openStreams: 0,
  bodyBytes: 0,
  walBytes: 0,
  disconnectedAnswers: 0,
  held: 0n,
  queuedWrites: 0,
  blockedBy: undefined,
  breakers,
}));

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-state-"));
  storeFolder = await openStoreFolder(join(folder, "tollgate.db"));
});
afterAll(async () => {
  await storeFolder.close();
  await rm(folder, { recursive: true });
});

async function readProviders(section: Section | undefined): Promise<ProviderReport> {
  const file = join(folder, "config.toml");
  const sections = section === undefined ? {} : { metrics: section };
  await writeFile(file, configText(oneModel("http://127.0.0.1:9/v1", sections)));
  await chmod(file, 0o600);
  const page = openConsole(storeFolder.store, loadConfig({ path: file }).config, Date.now());
  try {
    return await page.read<ProviderReport>("/api/providers");
  } finally {
    await page.stop();
  }
}

test("the states of circuit breakers come from the metrics listener", async () => {
  const listening = createMetricsServer(metrics).listen({ hostname: "127.0.0.1", port: 0 });
  const socket = join(folder, "metrics.sock");
  const onSocket = createMetricsServer(metrics).listen({ unix: socket });
  const port = listening.server?.port ?? 0;
  for (const listen of [`127.0.0.1:${port}`, `0.0.0.0:${port}`, `unix:${socket}`]) {
    const report = await readProviders({ listen });
    expect([listen, report.breakers, report.breakers_error]).toEqual([listen, [...breakers], null]);
  }
  await Promise.all([listening.server?.stop(true), onSocket.server?.stop(true)]);
});

test("without metrics there are no states, and no error", async () => {
  const { breakers: found, breakers_error, providers } = await readProviders(undefined);
  expect([found, breakers_error]).toEqual([null, null]);
  expect(providers).toMatchObject([
    { provider: "local", kind: "openai", models: ["small"], attempts: 0 },
  ]);
});

test("a listener that does not answer costs a second, and is named", async () => {
  const silent = await openSilentPort();
  const startedMs = performance.now();
  const { breakers: found, breakers_error } = await readProviders({
    listen: `127.0.0.1:${silent.port}`,
  });
  expect(found).toBeNull();
  expect(breakers_error).toContain(`cannot be read at http://127.0.0.1:${silent.port}: `);
  expect(performance.now() - startedMs).toBeLessThan(5000);
  silent.stop();
});

test("check tells what tollgate check tells of the file as it is now", async () => {
  const file = join(folder, "config.toml");
  await readProviders(undefined);
  const page = openConsole(storeFolder.store, loadConfig({ path: file }).config, Date.now());
  const check = () => page.read<ConfigReport>("/api/check");
  expect(await check()).toMatchObject({ ok: true, file, problems: [] });
  await writeFile(file, "[server]\nlisten = 5\n");
  const wrong = await check();
  expect([wrong.ok, "file" in wrong]).toEqual([false, false]);
  expect(wrong.problems.join("\n")).toContain("listen");
  await rm(file);
  expect((await check()).problems.join("\n")).toContain(file);
  await page.stop();
});
