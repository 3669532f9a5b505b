import { afterEach, beforeEach, describe, expect } from "bun:test";
import { hashKey } from "../../../src/auth/apiKey.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { openServer } from "../../../src/store/postgres/store.ts";
import { connect } from "../../../src/store/sqlite/sqlite.ts";
import type { RequestRecord, Store, Writer } from "../../../src/store/store.ts";
import type { Values } from "../../../src/store/connection.ts";
import { auditFile, openAuditor } from "../auditor/auditor.ts";
import { describePostgres } from "../servers/describeServers.ts";
import { recordRequest, reserve } from "./recordedRequest.ts";
import { fastClock, openReplica } from "./replica.ts";
import { replicaDatabase } from "./replicaDatabase.ts";
import { actor, costOfEnded, ended, openStoreFolder, type Owner } from "./storeFolder.ts";
import { isLong } from "../sample.ts";

/** A store of either engine, with the writer of a serving gateway. */
interface OpenStore {
  readonly store: Store;
  readonly writer: Writer;
  /** The rows of a query in the language of both engines. Integers are bigints. */
  rows<Row>(text: string, values?: Values): Promise<Row[]>;
  /** Ends all running requests, as after a crash of the gateway. */
  interruptRunning(): Promise<void>;
  /** Stops the writer, as the gateway's end does. Then the problems that the audit and the auditor of the tests find. */
  endWithProblems(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** The store of the test that runs. */
export interface StoreUnderTest extends Pick<
  OpenStore,
  "store" | "writer" | "rows" | "interruptRunning"
> {
  /** Reserves the charge of a request, and then writes its row. */
  record(record: RequestRecord): Promise<void>;
  /** Records many done requests of one account in a few groups. */
  recordMany(owner: Owner, ids: readonly string[]): Promise<void>;
  refund(request: string, amount: bigint): Promise<void>;
  /** Folds everything that may be, as many batches as it takes. Returns the number of requests. */
  fold(before: number): Promise<number>;
  /** Sets what the gateway may hold for open requests of an account. */
  reserve(accountId: number, amount: bigint): Promise<void>;
  /** Credits an account and makes a key for it. Both are made if they are not there. */
  fund(name: string, balance: bigint, key?: KeyOfFund): Promise<Owner>;
  /** Rotates a key. Returns the row id of the new one. */
  rotate(from: string, to: string, graceMs?: number): Promise<number>;
  /** The rows of the admin log, oldest first. */
  adminLog(): Promise<readonly AdminLogRow[]>;
}

interface KeyOfFund {
  readonly name: string;
  readonly budget: bigint | null;
}

interface AdminLogRow {
  readonly actor: string;
  readonly command: string;
  readonly subject: string;
  readonly detail: string | null;
}

/**
 * Registers the same tests for both engines. Each test has an empty store, and no problem may be in it after the test.
 * Those on PostgreSQL are skipped, and say so, without a server.
 */
export function describeStores(name: string, register: (current: StoreUnderTest) => void): void {
  describe(`${name} on SQLite`, () => register(openBefore(openSqlite)));
  describePostgres(`${name} on PostgreSQL`, () => register(openBefore(openPostgres)));
}

function openBefore(open: () => Promise<OpenStore>): StoreUnderTest {
  let current: OpenStore;
  beforeEach(async () => {
    current = await open();
  });
  afterEach(async () => {
    const problems = await current.endWithProblems();
    await current.close();
    expect(problems).toEqual([]);
  });
  return {
    get store() {
      return current.store;
    },
    get writer() {
      return current.writer;
    },
    rows: (text, values) => current.rows(text, values),
    interruptRunning: () => current.interruptRunning(),
    record: (record) => recordRequest(current.writer, record),
    async recordMany(owner, ids) {
      const { writer } = current;
      await reserve(writer, owner.accountId, costOfEnded * BigInt(ids.length));
      await Promise.all(
        ids.map((id) => writer.write({ kind: "recordRequest", record: ended(id, owner) })),
      );
    },
    async refund(request, amount) {
      await current.store.admin.refund(actor, { request, amount, ref: null, note: null });
    },
    async fold(before) {
      for (let count = 0; ;) {
        const { folded = 0 } = await current.writer.write({ kind: "fold", before });
        count += folded;
        if (folded === 0) return count;
      }
    },
    reserve: (accountId, amount) => reserve(current.writer, accountId, amount),
    fund: (name, balance, key) => fund(current.store, name, balance, key),
    async rotate(from, to, graceMs = DAY_MS) {
      const successor = { publicId: to, hash: hashKey(to), prefix: "sk-tg-000000" };
      const rotated = await current.store.admin.rotateKey(actor, from, { successor, graceMs });
      return rotated.key.id;
    },
    adminLog: () =>
      current.rows("SELECT actor, command, subject, detail FROM admin_log ORDER BY id"),
  };
}

async function fund(
  { admin }: Store,
  account: string,
  balance: bigint,
  { name, budget }: KeyOfFund = { name: account, budget: null },
): Promise<Owner> {
  const { key } = await admin.createKey(actor, account, {
    publicId: `key_${name}`,
    hash: hashKey(name),
    prefix: "sk-tg-000000",
    createdAt: actor.at,
    budget,
  });
  const credit = { account, kind: "credit", amount: balance, ref: null, note: null } as const;
  if (balance > 0n) await admin.changeBalance(actor, credit);
  return { accountId: key.accountId, keyId: key.id, firstKeyId: key.id };
}

async function openSqlite(): Promise<OpenStore> {
  const opened = await openStoreFolder();
  const { path, store } = opened;
  const { queries, sqlite } = connect(path, "process");
  return {
    store,
    get writer() {
      return opened.writer;
    },
    rows: (text, values) => queries.rows(text, values),
    async interruptRunning() {
      store.interruptRunning();
    },
    async endWithProblems() {
      await opened.stopWriter();
      store.interruptRunning();
      return [...(await store.auditHere()).problems, ...auditFile(path)];
    },
    async close() {
      sqlite.close();
      await opened.close();
    },
  };
}

async function openPostgres(): Promise<OpenStore> {
  const database = await replicaDatabase();
  const { queries, store } = await openServer({
    url: database.url,
    shownUrl: "postgres://tollgate@server/tollgate",
  });
  let replica = await openReplica(database.url, { writerClock: fastClock });
  return {
    store,
    get writer() {
      return replica.writer;
    },
    // Bun's array of rows has more than rows.
    rows: async (text, values) => Array.from(await queries.rows(text, values)),
    async interruptRunning() {
      await replica[Symbol.asyncDispose]();
      replica = await openReplica(database.url, { writerClock: fastClock });
    },
    async endWithProblems() {
      await replica[Symbol.asyncDispose]();
      // It reads the whole schema too, which takes longer than most of these tests.
      const { problems } = isLong ? await store.audit() : { problems: [] };
      return [...problems, ...(await openAuditor({ url: database.url }).problems())];
    },
    async close() {
      await store.close();
      await database.drop();
    },
  };
}
