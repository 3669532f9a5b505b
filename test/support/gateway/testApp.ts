import { spyOn } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openApp, type App } from "../../../src/app.ts";
import { issueKey } from "../../../src/auth/apiKey.ts";
import type { Holds } from "../../../src/billing/holds.ts";
import { loadTracing } from "../../../src/commands/serve/gatewayServer.ts";
import { loadConfig } from "../../../src/config/load.ts";
import type { Config } from "../../../src/config/schema.ts";
import { createMetricsServer, createServer } from "../../../src/http/server.ts";
import type { SharedRates } from "../../../src/limits/sharedRates.ts";
import { systemRandom } from "../../../src/lib/random.ts";
import type { SqliteStore } from "../../../src/store/open.ts";
import type { RequestRow, Store } from "../../../src/store/store.ts";
import { createPrometheusMetrics } from "../../../src/telemetry/prometheus.ts";
import { openAuditor, type Auditor } from "../auditor/auditor.ts";
import { configText, type GatewayConfig } from "./gatewayConfig.ts";
import type { DatabasePlace } from "../auditor/databaseRows.ts";
import { auditAt, rowsAt } from "../store/gatewayDatabase.ts";
import { patientTimes, ServerView } from "../limits/sharedLimiters.ts";
import { withTestedEngines } from "../testedEngines.ts";
import { until, untilAsync } from "../until.ts";
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
  readonly place: DatabasePlace;
  /** The database file. Throws where a server is tested. */
  readonly path: string;
  readonly store: Store;
  /** The same store with what only a database file has. Throws where a server is tested. */
  readonly sqlite: SqliteStore;
  readonly clock: TestClock;
  /** Runs with every audit. */
  readonly auditor: Auditor;
  /** The lines of the log so far, parsed. */
  readonly log: readonly Readonly<Record<string, unknown>>[];
  /** The log as it was written. */
  readonly logText: () => string;
  /** A key, by default of a new account with 100 roubles. */
  key(options?: KeyOptions): Promise<TestKey>;
  /** Rotates the key. The old one works for `graceMs` more. */
  rotate(key: TestKey, graceMs: number): Promise<TestKey>;
  /** Resolves when it has been told of all changes by commands so far: at once with a file, later with a server. */
  toldOfChanges(): Promise<void>;
  /** Moves the clock of the gateway, and of the server that counts its limits. */
  advance(ms: number): Promise<void>;
  /** Applies another config, as a reload does. */
  reload(config: GatewayConfig): Promise<void>;
  /** Resets the health of all routes, as removing and adding all providers does. */
  forgetFailures(): void;
  balance(key: TestKey): Promise<bigint>;
  /** Resolves when the gateway has no reserve of the account any more: some time after its last request. */
  unreserved(key: TestKey): Promise<void>;
  /** The records of the account's requests, newest first. Waits until none of them is running. */
  records(key: TestKey, count: number): Promise<readonly RequestRow[]>;
  /** Waits until no request is in flight and nothing is held. Throws if that never comes. */
  expectRest(): Promise<void>;
  /** The same. Then it throws if an audit finds a problem. */
  expectAuditPasses(): Promise<void>;
  /** Waits for rest, closes everything, and runs the audits. */
  close(): Promise<void>;
}

const actor = { name: "tester", command: "test", at: Date.now() } as const;
export const rouble = 1_000_000_000n;

/** Opens a gateway over a new database. Close it, also after a failure. */
export async function openTestApp(config: GatewayConfig): Promise<TestApp> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-app-"));
  const lines: string[] = [];
  const clock = createTestClock();
  const fatal: string[] = [];
  const tested = await withTestedEngines(config);
  const loaded = await load(folder, tested.config);
  const metrics = loaded.metrics && createPrometheusMetrics();
  const edges = {
    clock,
    random: systemRandom,
    writeLog: (written: string) => lines.push(...written.split(/(?<=\n)/)),
    fatal: (message: string) => fatal.push(message),
  };
  const tracing = loaded.telemetry && (await loadTracing(loaded.telemetry));
  const limitsTimes = tested.limitsUrl === undefined ? undefined : patientTimes;
  const app = await openApp(loaded, edges, { metrics, startTracing: tracing, limitsTimes });
  // Until then a gateway counts by itself, and the server does not know of it.
  if (limitsTimes !== undefined)
    await until(
      "the limits server is used",
      () => (app.rateLimiter as SharedRates).figures().isUsed,
    );
  const { store } = app.gateway;
  const { database } = loaded;
  const place = database.engine === "sqlite" ? { path: database.path } : { url: database.url };
  const auditor = openAuditor(place);
  const server = createServer(app).listen({ hostname: "127.0.0.1", port: 0 }).server;
  if (server?.port === undefined) throw new Error("the server did not start");
  const anyPort = { hostname: "127.0.0.1", port: 0 };
  const scrapes = metrics && createMetricsServer(metrics).listen(anyPort).server;

  const expectRest = async (): Promise<void> => {
    const { holds, inFlight } = app.gateway;
    await untilAsync(
      "every hold is released and every exchange over",
      async () =>
        holds.total() === 0n &&
        inFlight.exchanges.size === 0 &&
        (await store.requests.list({ status: "running" }, { limit: 1 })).rows.length === 0,
    );
    if (fatal.length > 0) throw new Error(fatal.join("\n"));
  };
  const audit = async (): Promise<void> => {
    // The gateway serves, so it may have reserves.
    const problems = await auditAt(place, { atRest: false });
    const wrong = [...problems, ...(await auditor.problems()), ...fatal];
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  };
  return {
    app,
    port: server.port,
    url: `http://127.0.0.1:${server.port}`,
    metricsUrl: `http://127.0.0.1:${scrapes?.port}/metrics`,
    place,
    get path() {
      if (!("path" in place)) throw new Error("the gateway has no database file");
      return place.path;
    },
    store,
    get sqlite() {
      if (!("path" in place)) throw new Error("the gateway has no database file");
      return store as SqliteStore;
    },
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
    async rotate({ id: old, account }, graceMs) {
      const { key, hash, prefix } = issueKey(systemRandom);
      const id = app.newId("key");
      const rotation = { successor: { publicId: id, hash, prefix }, graceMs };
      await store.admin.rotateKey({ ...actor, at: clock.epochMs() }, old, rotation);
      return { key, id, account };
    },
    async toldOfChanges() {
      if ("url" in place) await toldBy(place, app.gateway.holds);
    },
    async advance(ms) {
      clock.advance(ms);
      if (tested.limitsUrl === undefined) return;
      await using view = new ServerView(tested.limitsUrl);
      await view.age(ms);
    },
    async reload(next) {
      app.reload(await load(folder, tested.withServers(next)));
    },
    forgetFailures() {
      const { config: current } = app.gateway.current;
      app.reload({ ...current, providers: [], models: [] });
      app.reload(current);
    },
    balance: async ({ account }) => (await store.accounts.find(account))?.balance ?? 0n,
    unreserved: ({ account }) =>
      untilAsync(
        "nothing is reserved",
        async () => (await store.accounts.find(account))?.reserved === 0n,
      ),
    async records({ account }, count) {
      const list = async () => (await store.requests.list({ account }, { limit: count + 1 })).rows;
      await untilAsync(`${count} ended requests of ${account}`, async () => {
        const rows = await list();
        return rows.length === count && rows.every(({ status }) => status !== "running");
      });
      return await list();
    },
    expectRest,
    async expectAuditPasses() {
      await expectRest();
      await audit();
    },
    async close() {
      try {
        await expectRest();
      } finally {
        await server.stop(true);
        await scrapes?.stop(true);
        await app.close();
        await audit();
        await rm(folder, { recursive: true, force: true });
        await tested.remove();
      }
    },
  };
}

async function load(folder: string, config: GatewayConfig): Promise<Config> {
  const file = join(folder, "config.toml");
  await Bun.write(file, configText(config));
  return loadConfig({ path: file }).config;
}

/** Writes a key to the store, and its account with its credit. */
export async function makeKey({ admin }: Store, id: string, options: KeyOptions): Promise<TestKey> {
  const { account = `account-of-${id}`, balance = 100n * rouble, overdraft, ...settings } = options;
  const { key, hash, prefix } = issueKey(systemRandom);
  if (overdraft !== undefined) await admin.createAccount(actor, account, overdraft);
  const made = { ...settings, publicId: id, hash, prefix, createdAt: actor.at };
  await admin.createKey(actor, account, made);
  if (balance > 0n) {
    const kind = "credit";
    await admin.changeBalance(actor, { account, kind, amount: balance, ref: null, note: null });
  }
  return { key, id, account };
}

let notes = 0;

/** PostgreSQL tells in the order of commits, so a change of no account is heard after all others. */
async function toldBy(place: DatabasePlace, holds: Holds): Promise<void> {
  notes += 1;
  const note = -notes;
  const { promise, resolve } = Promise.withResolvers<void>();
  const changed = holds.changed.bind(holds);
  const spy = spyOn(holds, "changed").mockImplementation((accountId) => {
    changed(accountId);
    if (accountId === note) resolve();
  });
  await rowsAt(place, `SELECT pg_notify('tollgate_changed', '${note}')`);
  await promise;
  spy.mockRestore();
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
