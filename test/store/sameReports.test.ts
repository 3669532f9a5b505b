import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demoConfigToml } from "../../src/commands/demo/demoConfig.ts";
import { fillMonth } from "../../src/commands/demo/month.ts";
import { loadConfig } from "../../src/config/load.ts";
import { requestStatuses } from "../../src/contract/account/requestStatus.ts";
import { reportSpans } from "../../src/contract/operator/span.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { openStore, startWriter, type SqliteStore } from "../../src/store/open.ts";
import { usageGroupings, type Store, type Writer } from "../../src/store/store.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import { fillMonths } from "../support/store/months.ts";
import { copyToServer, type ServerCopy } from "../support/store/serverCopy.ts";
import { running } from "../support/store/storeFolder.ts";
import { openReplica, type Replica } from "../support/store/replica.ts";
import { amount } from "../support/sample.ts";

const until = Date.parse("2026-11-24T15:20:00Z");
const today = Math.floor(until / DAY_MS);

/** Makes a database in a folder. Returns its path. */
type Fill = (folder: string) => Promise<string>;

const demo: Fill = async (folder) => {
  const config = join(folder, "config.toml");
  const options = { listen: "127.0.0.1:0", providerUrl: "http://127.0.0.1:1/v1", silent: true };
  writeFileSync(config, demoConfigToml(options), { mode: 0o600 });
  const loaded = loadConfig({ path: config }).config;
  await fillMonth(loaded, until);
  return (loaded.database as { path: string }).path;
};

/** With requests that failed over, were written off, refunded or estimated, and more than the percentiles read. */
const months: Fill = async (folder) => {
  const path = join(folder, "months.db");
  fillMonths(path, {
    requests: amount(6000, 25_000),
    accounts: 30,
    keys: 60,
    days: 50,
    untilMs: until,
  });
  return path;
};

const foldedMonths: Fill = async (folder) => {
  const path = await months(folder);
  const writer = writerOf(path);
  // Into the last day of a span, so that some of its steps are folded in part.
  for (let folded: number | undefined = 1; folded !== 0;)
    ({ folded } = await writer.write({ kind: "fold", before: until - 20.4 * DAY_MS }));
  await writer.close();
  return path;
};

function writerOf(path: string): Writer {
  return startWriter({ path, durability: "process" }, (message) => {
    throw new Error(`the writer is broken: ${message}`);
  });
}

describeSame("the demo's month", demo);
describeSame("months", months);
describeSame("months that are folded in part", foldedMonths);

function describeSame(name: string, fill: Fill): void {
  describePostgres(`both engines tell the same of ${name}:`, () => register(fill));
}

function register(fill: Fill): void {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-same-"));
  let sqlite: SqliteStore;
  let server: ServerCopy;
  let replica: Replica;

  beforeAll(async () => {
    const path = await fill(folder);
    sqlite = openStore({ path, durability: "process", serving: false });
    // A copy has no running request, so both get the same ones behind it.
    sqlite.interruptRunning();
    server = await copyToServer(path);
    replica = await openReplica(server.url);
    const writer = writerOf(path);
    for (const [at, key] of (await keys()).slice(0, 5).entries()) {
      const owner = { accountId: key.accountId, keyId: key.id, firstKeyId: key.firstKeyId };
      const record = running(`req_running_${at}`, owner, { at: until - at * 2_000_000 });
      for (const one of [writer, replica.writer])
        await one.write({ kind: "recordRequest", record });
    }
    await writer.close();
  }, 60_000);
  afterAll(async () => {
    sqlite.closeNow();
    await replica[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  /** What a read tells of both stores. */
  const both = async (read: (store: Store) => unknown): Promise<void> => {
    const here = await read(sqlite);
    expect(here).toBeDefined();
    expect(await read(server.store)).toEqual(here);
  };
  const accounts = () => sqlite.accounts.list();
  const keys = () => sqlite.keys.list(undefined);
  const requests = async () => (await sqlite.requests.list({}, { limit: 10_000 })).rows;

  test("accounts, keys and vouchers, in the same order", async () => {
    await both((store) => store.accounts.list());
    await both((store) => store.keys.list(undefined));
    await both((store) => store.vouchers.list());
    for (const { name } of await accounts()) {
      await both((store) => store.accounts.find(name));
      await both((store) => store.keys.list(name));
    }
    for (const key of await keys()) {
      await both((store) => store.keys.find(key.publicId));
      await both((store) => store.keys.newestOfChain(key));
    }
    for (const search of ["bur", "BUR", "vch_", "%", "_"]) {
      await both((store) => store.vouchers.list({ search, before: 5, limit: 3 }));
      await both((store) => store.vouchers.count(search));
    }
  });

  test("histories by page", async () => {
    for (const { id } of await accounts()) {
      await both((store) => store.ledger.history(id, 500));
      await both((store) => store.ledger.history(id, 7, 20));
    }
  });

  test("receipts and attempts", async () => {
    for (const { id } of (await requests()).filter((_, at) => at % 97 === 0)) {
      await both((store) => store.requests.find(id));
      await both((store) => store.requests.attempts(id));
    }
    await both((store) => store.requests.newestAt(until));
  });

  test("usage by each group, of all and of one account, of all time and of parts of days", async () => {
    const account = (await accounts())[0]?.name;
    const part = { since: until - 9.3 * DAY_MS, until: until - 2.1 * DAY_MS };
    for (const by of usageGroupings)
      for (const filter of [{}, { account }, part, { account, ...part }])
        await both((store) => store.usage.by(by, filter));
  });

  test("the usage of an account by day and by hour", async () => {
    const days = { from: today - 30, to: today + 1 };
    for (const { id } of (await accounts()).slice(0, 6)) {
      await both((store) => store.usage.ofAccountByDay(id, days, noPause));
      await both(async (store) => {
        const periods = await store.usage.ofAccountByHour(id, days, noPause);
        // The order in a step means nothing.
        return periods.map(({ period, sums }) => `${period} ${text(sums)}`).toSorted();
      });
    }
  });

  test("each report of the console", async () => {
    for (const span of reportSpans) {
      await both((store) => store.reports.overview(span, until));
      await both((store) => store.reports.providers(span, until));
      for (const { id } of await accounts())
        await both((store) => store.reports.account(id, span, until));
    }
    for (const search of [undefined, "a", "KEY_", "%"]) {
      for (const before of [undefined, (await accounts())[1]?.name])
        await both((store) => store.reports.accounts({ search, before, limit: 5 }, until));
      for (const before of [undefined, (await keys())[6]?.id])
        await both((store) => store.reports.keys({ search, before, limit: 5 }, until));
    }
    for (const account of (await accounts()).map(({ name }) => name))
      await both((store) => store.reports.keys({ account, limit: 3 }, until));
  });

  test("the list of requests by each filter, page by page", async () => {
    const [account, quiet] = [(await accounts())[1]?.name, (await accounts()).at(-1)?.name];
    const [key, model] = [(await keys())[0]?.publicId, (await requests())[0]?.model];
    const day = { since: until - 3 * DAY_MS, until: until - 2 * DAY_MS };
    for (const filter of [
      {},
      { account },
      { account: (await accounts())[0]?.id, model },
      { account: quiet },
      { account: "nobody" },
      { key },
      { model },
      { provider: (await requests()).find(({ provider }) => provider !== null)?.provider ?? "" },
      ...requestStatuses.flatMap((status) => [{ status }, { status, account }, { status, key }]),
      { since: until - DAY_MS },
      { until: until - 20 * DAY_MS },
      { ...day },
      { ...day, account },
      { ...day, model, status: "done" as const },
      { chargeMin: 1_000_000n, chargeMax: 900_000_000n },
      { chargeMax: 0n },
      { isEstimated: true as const },
      { isWrittenOff: true as const },
      { isWrittenOff: true as const, account, model },
    ])
      await both(async (store) => {
        const pages: unknown[] = [];
        let before: number | undefined;
        for (let page = 0; page < 3; page += 1) {
          const found = await store.requests.list(filter, { limit: 25, before });
          pages.push(found);
          before = found.next?.row;
          if (before === undefined) break;
        }
        return { filter, pages };
      });
  });

  test("a clean audit", async () => {
    await both(async (store) => {
      // The requests that run belong to a replica that lives, and to no gateway.
      const { notes: _, ...report } = await store.audit();
      expect(report.problems).toEqual([]);
      return report;
    });
  });
}

const noPause = async () => {};

function text(sums: object): string {
  return JSON.stringify(sums, (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
}
