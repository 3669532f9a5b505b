import { hashKey } from "../src/auth/apiKey.ts";
import { DAY_MS } from "../src/lib/clock.ts";
import { openStore, type SqliteStore } from "../src/store/open.ts";
import { ACCOUNTS, FILLED_UNTIL_MS, filledKey } from "./filledStore.ts";
import type { Figures } from "./storeGrowth.ts";

const POINT_READS = 200;
const POINT_ROUNDS = 50;
const REPORT_ROUNDS = 3;
const START_ROUNDS = 5;

/** What reads a store and leaves it as it was: start-up, reports, lists, audit. */
export async function measureReports(path: string): Promise<Figures> {
  const start = await fastestMs(START_ROUNDS, () => {
    const store = openServed(path);
    store.interruptRunning();
    store.closeNow();
  });
  const store = openServed(path);
  const figures = {
    "start: open and interrupt, ms": start,
    ...(await reports(store)),
    ...(await audit(store)),
  };
  store.closeNow();
  return figures;
}

function openServed(path: string): SqliteStore {
  return openStore({ path, durability: "process", serving: true });
}

/** What admission reads after a change. */
export async function measurePointReads(path: string): Promise<Figures> {
  const store = openServed(path);
  const hashes = Array.from({ length: ACCOUNTS }, (_, at) => hashKey(filledKey(at + 1)));
  const each = async (read: (at: number) => unknown): Promise<number> => {
    const round = async () => {
      for (let at = 0; at < POINT_READS; at += 1) await read(at % ACCOUNTS);
    };
    return ((await fastestMs(POINT_ROUNDS, round)) * 1000) / POINT_READS;
  };
  const figures = {
    "admission: key by hash, us": await each((at) =>
      store.keys.findByHash(hashes[at] ?? new Uint8Array()),
    ),
  };
  store.closeNow();
  return figures;
}

async function reports(store: SqliteStore): Promise<Figures> {
  const noon = FILLED_UNTIL_MS - 40 * DAY_MS + DAY_MS / 2;
  const account = "account-3";
  const month = { since: noon, until: noon + 30 * DAY_MS };
  const [last] = (await store.requests.list({}, { limit: 1 })).rows;
  const accountId = 3;
  const page = { limit: 20, stepRows: 500, examinedMax: 20_000 };
  const to = Math.ceil(FILLED_UNTIL_MS / DAY_MS);
  const report = (work: () => unknown) => fastestMs(REPORT_ROUNDS, work);
  return {
    "usage by day, ms": await report(() => store.usage.by("day", {})),
    "usage by model, ms": await report(() => store.usage.by("model", {})),
    "usage by account, ms": await report(() => store.usage.by("account", {})),
    "usage by key, ms": await report(() => store.usage.by("key", {})),
    "usage by day, 30 days from noon on, ms": await report(() => store.usage.by("day", month)),
    "usage by day of one account, ms": await report(() => store.usage.by("day", { account })),
    "usage by model of one account, the same 30 days, ms": await report(() =>
      store.usage.by("model", { account, ...month }),
    ),
    "a tenant's usage of 366 days, in steps, ms": await report(() =>
      store.usage.ofAccountByDay(accountId, { from: to - 366, to }, async () => {}),
    ),
    "a tenant's usage by hour of 3 days, in steps, ms": await report(() =>
      store.usage.ofAccountByHour(accountId, { from: to - 3, to }, async () => {}),
    ),
    "a tenant's requests, ms": await report(() =>
      store.requests.list({ account: accountId }, page),
    ),
    "a tenant's requests of a model that it never used, in steps, ms": await report(() =>
      store.requests.list({ account: accountId, model: "none" }, page),
    ),
    "a tenant's receipt, ms": await report(() => store.requests.receipt(accountId, last?.id ?? "")),
    "requests, ms": await report(() => store.requests.list({}, { limit: 50 })),
    "requests of an account, ms": await report(() =>
      store.requests.list({ account }, { limit: 50 }),
    ),
    "history of an account, ms": await report(() => store.ledger.history(accountId, 50)),
    "requests that failed, ms": await report(() =>
      store.requests.list({ status: "failed" }, { limit: 50 }),
    ),
    "requests that failed of an account, ms": await report(() =>
      store.requests.list({ status: "failed", account }, { limit: 50 }),
    ),
    "requests show, ms": await report(async () => [
      await store.requests.find(last?.id ?? ""),
      await store.requests.attempts(last?.id ?? ""),
    ]),
  };
}

/** Once: it takes long. The memory is of the whole process, with what it had before. */
async function audit(store: SqliteStore): Promise<Figures> {
  const before = process.cpuUsage();
  const startedMs = performance.now();
  const { problems } = await store.audit();
  const tookMs = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(before);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return {
    "audit, s": tookMs / 1000,
    "audit, CPU s": (user + system) / 1_000_000,
    "memory after the audit, MB": process.memoryUsage.rss() / 1_000_000,
  };
}

/** The fastest of several rounds. */
async function fastestMs(rounds: number, work: () => unknown): Promise<number> {
  let fastest = Infinity;
  for (let round = 0; round < rounds; round += 1) {
    const startedMs = performance.now();
    await work();
    fastest = Math.min(fastest, performance.now() - startedMs);
  }
  return fastest;
}
