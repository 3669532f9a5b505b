import { requireSqlite } from "../../../src/config/database.ts";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openApp, type App } from "../../../src/app.ts";
import { issueKey } from "../../../src/auth/apiKey.ts";
import { loadTracing } from "../../../src/commands/serve/gatewayServer.ts";
import { loadConfig } from "../../../src/config/load.ts";
import type { Config } from "../../../src/config/schema.ts";
import { createMetricsServer, createServer } from "../../../src/http/server.ts";
import { systemRandom } from "../../../src/lib/random.ts";
import { auditStore } from "../../../src/store/sqlite/audit/auditSqlite.ts";
import { connect } from "../../../src/store/sqlite/sqlite.ts";
import type { RequestRow, SqliteStore } from "../../../src/store/store.ts";
import { createPrometheusMetrics } from "../../../src/telemetry/prometheus.ts";
import { openAuditor, type Auditor } from "../auditor/auditor.ts";
import { configText, type GatewayConfig } from "./gatewayConfig.ts";
import { until } from "../until.ts";
import { systemClock, type Clock } from "../../../src/lib/clock.ts";

/** The limits of a key; a missing one is the config's. `balance` in nano-roubles is credited to its account. */
export interface KeyOptions {
  account?: string;
  label?: string;
  balance?: bigint;
  overdraft?: bigint;
  models?: readonly string[];
  budget?: bigint;
  requestsPerMinute?: number;
  tokensPerMinute?: number;
  concurrentRequests?: number;
  expiresAt?: number;
}

export interface TestKey {
  readonly key: string;
  readonly id: string;
  readonly account: string;
}

/** A serving gateway with its own database and port. */
export interface TestApp {
  readonly app: App;
  readonly port: number;
  /** `http://127.0.0.1:PORT`. */
  readonly url: string;
  /** The URL of its metrics, if the config enables them. */
  readonly metricsUrl: string;
  readonly path: string;
  readonly store: SqliteStore;
  readonly clock: TestClock;
  /** Runs with every audit. */
  readonly auditor: Auditor;
  /** The lines of the log so far, parsed. */
  readonly log: readonly Readonly<Record<string, unknown>>[];
  /** The log as it was written. */
  readonly logText: () => string;
  /** A key, by default of a new account with 100 roubles. */
  key(options?: KeyOptions): TestKey;
  /** Rotates the key. The old one works for `graceMs` more. */
  rotate(key: TestKey, graceMs: number): TestKey;
  /** Applies another config, as a reload does. */
  reload(config: GatewayConfig): Promise<void>;
  /** Resets the health of all routes, as removing and adding all providers does. */
  forgetFailures(): void;
  balance(key: TestKey): bigint;
  /** Resolves when the gateway has no reserve of the account any more: some time after its last request. */
  unreserved(key: TestKey): Promise<void>;
  /** The records of the account's requests, newest first. Waits until none of them is running. */
  records(key: TestKey, count: number): Promise<readonly RequestRow[]>;
  /** Waits until no request is in flight. Throws if an audit finds a problem or anything is still held. */
  expectAuditPasses(): Promise<void>;
  /** Closes everything, and runs the audits once more. */
  close(): Promise<void>;
}

const actor = { name: "tester", at: Date.now() } as const;
export const rouble = 1_000_000_000n;

/** Opens a gateway over a new database. Close it, also after a failure. */
export async function openTestApp(config: GatewayConfig): Promise<TestApp> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-app-"));
  const lines: string[] = [];
  const clock = createTestClock();
  const fatal: string[] = [];
  const loaded = await load(folder, config);
  const metrics = loaded.metrics && createPrometheusMetrics();
  const edges = {
    clock,
    random: systemRandom,
    writeLog: (written: string) => lines.push(...written.split(/(?<=\n)/)),
    fatal: (message: string) => fatal.push(message),
  };
  const tracing = loaded.telemetry && (await loadTracing(loaded.telemetry));
  const app = await openApp(loaded, edges, metrics, tracing);
  // The config has a path, so it is the store in that file.
  const store = app.gateway.store as SqliteStore;
  const { path } = requireSqlite(app.gateway.current.config.database, "the test");
  // `store.audit()` first checks at length whether a gateway runs. This one does.
  const connection = connect(path, "process");
  const auditor = openAuditor(path);
  const server = createServer(app).listen({ hostname: "127.0.0.1", port: 0 }).server;
  if (server?.port === undefined) throw new Error("the server did not start");
  const anyPort = { hostname: "127.0.0.1", port: 0 };
  const scrapes = metrics && createMetricsServer(metrics).listen(anyPort).server;

  const audit = (): void => {
    // The gateway serves, so it may have reserves.
    const { problems } = auditStore(connection, { atRest: false });
    const wrong = [...problems, ...auditor.problems(), ...fatal];
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  };
  const expectAuditPasses = async (): Promise<void> => {
    const { holds, inFlight } = app.gateway;
    await until(
      "every hold is released and every exchange over",
      () =>
        holds.total() === 0n &&
        inFlight.exchanges.size === 0 &&
        store.requests.list({ status: "running", limit: 1 }).length === 0,
    );
    audit();
  };
  return {
    app,
    port: server.port,
    url: `http://127.0.0.1:${server.port}`,
    metricsUrl: `http://127.0.0.1:${scrapes?.port}/metrics`,
    path,
    store,
    clock,
    auditor,
    get log() {
      app.gateway.log.flush();
      return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    },
    logText() {
      app.gateway.log.flush();
      return lines.join("");
    },
    key: (options = {}) => makeKey(store, app.newId("key"), options),
    rotate({ id: old, account }, graceMs) {
      const { key, hash, prefix } = issueKey(systemRandom);
      const id = app.newId("key");
      const rotation = { successor: { publicId: id, hash, prefix }, graceMs };
      store.admin.rotateKey({ name: actor.name, at: clock.epochMs() }, old, rotation);
      return { key, id, account };
    },
    async reload(next) {
      app.reload(await load(folder, next));
    },
    forgetFailures() {
      const { config: current } = app.gateway.current;
      app.reload({ ...current, providers: [], models: [] });
      app.reload(current);
    },
    balance: ({ account }) => store.accounts.find(account)?.balance ?? 0n,
    unreserved: ({ account }) =>
      until("nothing is reserved", () => store.accounts.find(account)?.reserved === 0n),
    async records({ account }, count) {
      const list = () => store.requests.list({ account, limit: count + 1 });
      await until(
        `${count} ended requests of ${account}`,
        () => list().length === count && list().every(({ status }) => status !== "running"),
      );
      return list();
    },
    expectAuditPasses,
    async close() {
      try {
        await expectAuditPasses();
      } finally {
        await server.stop(true);
        await scrapes?.stop(true);
        await app.close();
        audit();
        connection.sqlite.close();
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

async function load(folder: string, config: GatewayConfig): Promise<Config> {
  const file = join(folder, "config.toml");
  await Bun.write(file, configText(config));
  return loadConfig({ path: file }).config;
}

function makeKey(store: SqliteStore, id: string, options: KeyOptions): TestKey {
  const { account = `account-of-${id}`, balance = 100n * rouble, overdraft, ...settings } = options;
  const { key, hash, prefix } = issueKey(systemRandom);
  if (overdraft !== undefined) store.admin.createAccount(actor, account, overdraft);
  store.admin.createKey(actor, account, {
    ...settings,
    publicId: id,
    hash,
    prefix,
    createdAt: actor.at,
  });
  if (balance > 0n) {
    const kind = "credit";
    store.admin.changeBalance(actor, { account, kind, amount: balance, ref: null, note: null });
  }
  return { key, id, account };
}

/** The system's clocks with an offset that a test can move forward. Timers are not affected. */
export interface TestClock extends Clock {
  advance(byMs: number): void;
}

function createTestClock(): TestClock {
  let aheadMs = 0;
  return {
    epochMs: () => systemClock.epochMs() + aheadMs,
    monotonicMs: () => systemClock.monotonicMs() + aheadMs,
    advance(byMs) {
      aheadMs += byMs;
    },
  };
}
