import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import { fillMonths } from "../support/store/months.ts";
import { copyToServer } from "../support/store/serverCopy.ts";

const NOW_MS = Date.UTC(2026, 4, 20, 13, 37);
const REQUESTS = 60_000;

let folder: string;
let path: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-latency-"));
  path = join(folder, "tollgate.db");
  fillMonths(path, { requests: REQUESTS, accounts: 20, keys: 40, days: 70, untilMs: NOW_MS });
}, 60_000);
afterAll(() => rm(folder, { recursive: true }));

/** Durations of all done requests since a time, sorted. */
function durationsSince(sinceMs: number): number[] {
  using database = new Database(path, { readonly: true });
  return database
    .query<{ ms: number }, [number]>(
      "SELECT duration_ms AS ms FROM requests WHERE status = 'done' AND at >= ? ORDER BY 1",
    )
    .all(sinceMs)
    .map(({ ms }) => ms);
}

interface OpenedStore extends AsyncDisposable {
  readonly store: Store;
}

describe("on SQLite", () =>
  register(async () => {
    const store = openStore({ path, durability: "process", serving: false });
    return { store, [Symbol.asyncDispose]: async () => void store.close() };
  }));
describePostgres("on PostgreSQL", () => register(() => copyToServer(path)));

function register(open: () => Promise<OpenedStore>): void {
  let opened: OpenedStore;
  beforeAll(async () => {
    opened = await open();
  }, 60_000);
  afterAll(() => opened[Symbol.asyncDispose]());

  test.each(["24h", "7d"] as const)("the percentiles of %s are exact", async (span) => {
    const { latencies, span: read } = await opened.store.reports.overview(span, NOW_MS);
    const durations = durationsSince(read.from);
    const at = (percent: number) => durations[Math.ceil((durations.length * percent) / 100) - 1];
    expect(latencies.now).toMatchObject({ isAll: true, requests: durations.length });
    expect(latencies.now.duration).toEqual({ p50: at(50) ?? 0, p95: at(95) ?? 0 });
  });

  test("the percentiles of a long span come from a sample, and are close", async () => {
    const { latencies } = await opened.store.reports.overview("90d", NOW_MS);
    const durations = durationsSince(0);
    const { isAll, requests, duration } = latencies.now;
    expect(isAll).toBe(false);
    expect(requests).toBeGreaterThan(5000);
    expect(requests).toBeLessThan(12_000);
    // The rank of a sampled percentile is at most two in a hundred away.
    const rank = (ms: number) => durations.filter((one) => one <= ms).length / durations.length;
    expect(Math.abs(rank(duration?.p50 ?? 0) - 0.5)).toBeLessThan(0.02);
    expect(Math.abs(rank(duration?.p95 ?? 0) - 0.95)).toBeLessThan(0.02);
  });
}
