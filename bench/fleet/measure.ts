/**
 * What a batch of a replica costs a real PostgreSQL: `bun bench/fleet/measure.ts`. It prints one JSON document within a
 * minute. `simulate.ts` computes with its figures. Linux only.
 */
import { SQL } from "bun";
import { readFileSync } from "node:fs";
import { systemClock, type Clock } from "../../src/lib/clock.ts";
import {
  knownSchema,
  versionOf,
  migrateServer,
} from "../../src/store/postgres/schema/migrations.ts";
import { BEAT, Lease } from "../../src/store/postgres/writer/lease.ts";
import { Session, statement } from "../../src/store/postgres/writer/session.ts";
import { SERVER_PACE } from "../../src/store/postgres/writer/writer.ts";
import { startReplicaWriter, type ReplicaWriter } from "../../src/store/postgres/writer/writer.ts";
import type { RequestRecord, ReserveTarget } from "../../src/store/store.ts";
import type { WriteOperation } from "../../src/store/writer/writerMessages.ts";
import type { PostgresServer } from "../../test/support/servers/postgres.ts";
import { priceOf, requestRecord, runningRecord } from "../../test/support/store/recordedRequest.ts";
import { DURABLE_SETTINGS, startDurableServer } from "./durableServer.ts";

const ACCOUNTS = 20_000;
/** Requests in a batch, and how many batches are measured. */
const SIZES: readonly (readonly [size: number, batches: number])[] = [
  [1, 100],
  [10, 50],
  [50, 25],
  [200, 10],
];
const CHARGE = 85_000_000n;
const BLOCK = 100_000_000_000_000n;
const OTHER_REPLICAS = 99;
const PACED_BATCHES = 40;
const ROUND_TRIPS = 1000;

/** What one transaction costs, or one round trip. */
interface Cost {
  /** The time that the client waits. A quarter of the transactions is faster: others disturb the slow ones. */
  readonly ms: number;
  /** Of the processes that serve clients, and of all others of the server: both user and system. */
  readonly cpuUs: number;
  readonly otherCpuUs: number;
  readonly walBytes: number;
}

interface Case extends Cost {
  readonly kind: Kind;
  readonly size: number;
}

/** `settle`: requests that ended within a second. `row` and `end`: a longer one. `take` and `give`: a block. `touch`: the last use of a key. */
type Kind = "settleOne" | "settleMany" | "row" | "end" | "take" | "give" | "touch";

/** One operation of a batch, or a block. */
type Item = RequestRecord | ReserveTarget | Touch;

type Touch = Extract<WriteOperation, { kind: "touchKey" }>;

/** A clock for which nothing is paced. */
const fastClock: Clock = { ...systemClock, monotonicMs: () => performance.now() * 1000 };

async function measure(server: PostgresServer): Promise<Record<string, unknown>> {
  const url = server.url();
  const sql = new SQL(url, { max: 1, bigint: true });
  await fill(sql);
  const connect = (): SQL => new SQL(url, { max: 1, bigint: true });
  const ignore = (): void => undefined;
  const listener = {
    onLost: ignore,
    onJoined: ignore,
    onEnded: ignore,
    onOutdated: ignore,
    onClockSkew: ignore,
    onError: ignore,
  };
  const lease = await Lease.take({
    connect,
    name: "measured",
    version: "1",
    knownSchema: versionOf(knownSchema),
    listener,
  });
  const meter = new ServerMeter(sql);
  const batches = new Batches(connect, lease, fastClock, meter);
  await warmUp(batches);
  // A plan that was made for empty tables reads all of them.
  await sql`ANALYZE`;
  const cases = await measureCases(batches);
  const paced = new Batches(connect, lease, systemClock, meter);
  const pacedOne = await paced.runPaced(PACED_BATCHES, () => many(1, ended));
  const pacedMany = await paced.runPaced(PACED_BATCHES, () => many(50, ended));
  await paced.close();
  await sql`CHECKPOINT`;
  const afterCheckpoint = await batches.run(3, () => many(50, ended));
  await batches.close();
  const session = await Session.open(connect);
  await sql`INSERT INTO replicas (name, version, started_at, seen_at, last_batch)
    SELECT 'other', '1', 0, 9000000000000000, 0 FROM generate_series(1, ${OTHER_REPLICAS})`;
  const beat = statement(BEAT, String(lease.id));
  const heartbeat = await meter.cost(() => inTurn(() => session.run(beat)));
  const seq = statement("SELECT seq FROM changes WHERE id > $1::text::bigint", "-1");
  const look = await meter.cost(() => inTurn(() => session.run(seq)));
  session.close();
  await lease.release();
  const [version] = await sql`SHOW server_version`;
  await sql.close();
  return {
    server: [`PostgreSQL ${version.server_version}`, ...DURABLE_SETTINGS],
    accounts: ACCOUNTS,
    perTransaction: fits(cases),
    heartbeatOf100Replicas: rounded(heartbeat),
    look: rounded(look),
    pacedAt40PerSecond: { batchOf1: rounded(pacedOne), batchOf50: rounded(pacedMany) },
    batchOf50AfterCheckpoint: rounded(afterCheckpoint),
    cases: cases.map((one) => Object.assign({ kind: one.kind, size: one.size }, rounded(one))),
  };
}

/** Accounts that may owe, each with a key: so they need no credits. */
async function fill(sql: SQL): Promise<void> {
  await migrateServer(sql);
  await sql`INSERT INTO accounts (name, overdraft, created_at)
    SELECT 'account-' || n, ${10n ** 18n}, 0 FROM generate_series(1, ${ACCOUNTS}) AS n`;
  await sql`INSERT INTO keys (public_id, account_id, hash, prefix, created_at)
    SELECT 'key_' || id, id, sha256(id::text::bytea), 'sk', 0 FROM accounts`;
  await sql`ANALYZE`;
}

/** Each account gets a block, and each statement its plan. */
async function warmUp(batches: Batches): Promise<void> {
  for (let id = 1; id <= ACCOUNTS; id += 500)
    await batches.run(1, () => Array.from({ length: 500 }, (_, at) => blockOf(id + at, BLOCK)));
  const longer = Array.from({ length: 10 }, () => many(100, ended));
  for (const rows of longer) await batches.run(1, () => rows.map(begun));
  for (const rows of longer) await batches.run(1, () => rows.map(endedLate));
}

async function measureCases(batches: Batches): Promise<readonly Case[]> {
  const cases: Case[] = [];
  const add = async (kind: Kind, size: number, count: number, make: () => readonly Item[]) => {
    cases.push({ kind, size, ...(await batches.run(count, make)) });
  };
  for (const [size, count] of SIZES) {
    await add("settleOne", size, count, () => Array.from({ length: size }, () => ended(1)));
    await add("settleMany", size, count, () => many(size, ended));
    const longer = Array.from({ length: count }, () => many(size, ended));
    let [begins, ends] = [0, 0];
    await add("row", size, count, () => (longer[begins++] ?? []).map(begun));
    await add("end", size, count, () => (longer[ends++] ?? []).map(endedLate));
    await add("touch", size, count, () =>
      many(size, (keyId): Touch => ({
        kind: "touchKey",
        accountId: keyId,
        keyId,
        at: Date.now(),
        address: null,
      })),
    );
    let [given, taken] = [0, 0];
    const next = (at: number): number[] =>
      Array.from({ length: size }, (_, index) => 2 + ((at * size + index) % (ACCOUNTS - 1)));
    await add("give", size, count, () => next(given++).map((id) => blockOf(id, 0n)));
    await add("take", size, count, () => next(taken++).map((id) => blockOf(id, BLOCK)));
  }
  return cases;
}

/** Sends batches of a given size through the writer of a replica, one behind the other. */
class Batches {
  readonly #writer: ReplicaWriter;
  readonly #meter: ServerMeter;
  readonly #reserves: ReserveTarget[][] = [];
  #took: number[] = [];

  constructor(connect: () => SQL, lease: Lease, clock: Clock, meter: ServerMeter) {
    this.#meter = meter;
    this.#writer = startReplicaWriter({
      connect,
      lease,
      clock,
      onFatal: (message) => {
        throw new Error(message);
      },
      onCommit: (tookMs) => this.#took.push(tookMs),
    });
    this.#writer.planner = { planBatch: () => this.#reserves.shift() ?? [], batchEnded() {} };
  }

  async run(count: number, make: () => readonly Item[]): Promise<Cost> {
    // While this one is at the server, the first whole batch gathers behind it.
    let before = this.#write([blockOf(1, BLOCK)]);
    return await this.#counted(async () => {
      for (let at = 0; at < count; at += 1) {
        const next = this.#write(make());
        await before;
        before = next;
      }
      await before;
    });
  }

  /** The same with the pace of a replica that has much to do. A batch that comes late may be sent as two. */
  async runPaced(count: number, make: () => readonly Item[]): Promise<Cost> {
    return await this.#counted(async () => {
      for (let at = 0; at < count; at += 1) {
        await Promise.all([this.#write(make()), Bun.sleep(SERVER_PACE.everyMs)]);
      }
    });
  }

  async #counted(work: () => Promise<void>): Promise<Cost> {
    return await this.#meter.cost(async () => {
      this.#took = [];
      await work();
      return this.#took;
    });
  }

  async close(): Promise<void> {
    await this.#writer.close();
  }

  async #write(items: readonly Item[]): Promise<void> {
    const targets = items.filter((item): item is ReserveTarget => "reserved" in item);
    this.#reserves.push(targets);
    const writes = items.flatMap((item) => {
      if ("reserved" in item) return [];
      const touch = "kind" in item ? item : undefined;
      return this.#writer.write(touch ?? { kind: "recordRequest", record: item as RequestRecord });
    });
    if (targets.length > 0) writes.push(this.#writer.write({ kind: "reserve" }));
    await Promise.all(writes);
  }
}

/** Reads what the server has used. */
class ServerMeter {
  readonly sql: SQL;

  constructor(sql: SQL) {
    this.sql = sql;
  }

  /** `work` returns the time of each transaction. */
  async cost(work: () => Promise<readonly number[]>): Promise<Cost> {
    const before = await this.#read();
    const took = await work();
    const after = await this.#read();
    const count = took.length;
    return {
      ms: took.toSorted((a, b) => a - b)[Math.floor(took.length / 4)] ?? Number.NaN,
      cpuUs: (after.cpuUs - before.cpuUs) / count,
      otherCpuUs: (after.otherCpuUs - before.otherCpuUs) / count,
      walBytes: (after.walBytes - before.walBytes) / count,
    };
  }

  async #read(): Promise<{ cpuUs: number; otherCpuUs: number; walBytes: number }> {
    const rows: { pid: bigint; serves: boolean; wal: bigint }[] = await this.sql`
      SELECT pid::bigint AS pid, backend_type = 'client backend' AS serves,
        (pg_current_wal_lsn() - '0/0')::bigint AS wal
      FROM pg_stat_activity WHERE pid <> pg_backend_pid()`;
    const sum = (serves: boolean): number =>
      rows.reduce((us, row) => us + (row.serves === serves ? cpuUsOf(row.pid) : 0), 0);
    return { cpuUs: sum(true), otherCpuUs: sum(false), walBytes: Number(rows[0]?.wal ?? 0n) };
  }
}

/**
 * The first figure of /proc/PID/schedstat is the time on a processor in nanoseconds
 * (https://docs.kernel.org/scheduler/sched-stats.html). /proc/PID/stat has the same in steps of 10 ms.
 */
function cpuUsOf(pid: bigint): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]) / 1000;
  } catch {
    return 0;
  }
}

async function inTurn(work: () => Promise<unknown>): Promise<readonly number[]> {
  const took: number[] = [];
  for (let at = 0; at < ROUND_TRIPS; at += 1) {
    const startedMs = performance.now();
    await work();
    took.push(performance.now() - startedMs);
  }
  return took;
}

/** For each kind: the fixed part of a transaction, and the part of each request or block. */
function fits(cases: readonly Case[]): Record<string, unknown> {
  const kinds = [...new Set(cases.map(({ kind }) => kind))];
  const columns = ["ms", "cpuUs", "walBytes"] as const;
  const fitOf = (kind: Kind) =>
    columns.map((name) => {
      const of = cases.filter((one) => one.kind === kind);
      return [name, lineThrough(of.map((one) => [one.size, one[name]]))] as const;
    });
  return Object.fromEntries(kinds.map((kind) => [kind, Object.fromEntries(fitOf(kind))]));
}

/** The line with the least squares of relative errors: else the largest batch alone would decide. */
function lineThrough(points: readonly (readonly [x: number, y: number])[]): object {
  let [w, wx, wy, wxx, wxy] = [0, 0, 0, 0, 0];
  for (const [x, y] of points) {
    const weight = 1 / y ** 2;
    w += weight;
    wx += weight * x;
    wy += weight * y;
    wxx += weight * x * x;
    wxy += weight * x * y;
  }
  const each = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return { fixed: round((wy - each * wx) / w), each: round(each) };
}

function rounded({ ms, cpuUs, otherCpuUs, walBytes }: Cost): Cost {
  return {
    ms: round(ms),
    cpuUs: round(cpuUs),
    otherCpuUs: round(otherCpuUs),
    walBytes: round(walBytes),
  };
}

const round = (value: number): number => Number(value.toPrecision(3));

/** Different accounts, as a random request finds them. */
function many<Made>(size: number, make: (accountId: number) => Made): Made[] {
  const ids = new Set<number>();
  while (ids.size < size) ids.add(1 + Math.floor(Math.random() * ACCOUNTS));
  return [...ids].map(make);
}

function blockOf(accountId: number, amount: bigint): ReserveTarget {
  return { accountId, reserved: String(amount) };
}

let requests = 0;

function ended(accountId: number): RequestRecord {
  requests += 1;
  return requestRecord({
    // As long as an id of the gateway, and in the order of time as well.
    publicId: `req_${String(requests).padStart(26, "0")}`,
    at: Date.now(),
    accountId,
    keyId: accountId,
    firstKeyId: accountId,
    model: "gpt-5-mini",
    provider: "openai",
    price: priceOf({ input: 85_000n }),
    hold: 500_000_000n,
    charge: CHARGE,
    promptTokens: 1000,
    attempts: [{ provider: "openai", outcome: "ok", status: 200, durationMs: 900 }],
    durationMs: 900,
  });
}

function begun(record: RequestRecord): RequestRecord {
  return runningRecord({
    ...record,
    status: "running",
    charge: 0n,
    promptTokens: 0,
    attempts: [],
    durationMs: null,
  });
}

const endedLate = (record: RequestRecord): RequestRecord => ({ ...record, mayHaveRow: true });

const started = await startDurableServer();
try {
  console.log(JSON.stringify(await measure(started), null, 2));
} finally {
  await started.close();
}
