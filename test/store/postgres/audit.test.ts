import { describe, expect, test } from "bun:test";
import type { AuditProgress } from "../../../src/contract/operator/auditResult.ts";
import { auditServerApart } from "../../../src/store/postgres/audit/audit.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { serverLedger } from "../../support/store/auditedLedger.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { Books, openReplica } from "../../support/store/replica.ts";
import { running } from "../../support/store/storeFolder.ts";

/** Alice is account 1 with the keys 1 and 3 of one chain, bob is account 2 with key 2. */
const addReplica = (id: number, endedAt: string): string =>
  `INSERT INTO replicas (id, name, version, started_at, seen_at, ended_at, last_batch) VALUES (${id}, 'one', '1', 0, 0, ${endedAt}, 0)`;
const silent = addReplica(7, "NULL");
const live = silent.replace("0, 0, NULL", "0, 9000000000000, NULL");
const gone = addReplica(8, "1");
const block = (replica: number, account: number, key: number, amount: number): string =>
  `INSERT INTO reserves VALUES (${replica}, ${account}, ${key}, ${amount})`;
const reserveBob = "UPDATE accounts SET reserved = 5 WHERE id = 2";
const runDone = (replica: string): string =>
  `INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status, price_input, price_cached_input, price_cache_write, price_cache_write_1h, price_output, figures_price, hold, attempt_count, replica_id)
    VALUES ('req_open', 0, 2, 2, 'chat', 'small', 0, 'running', 0, 0, 0, 0, 0, 0, 5, 1, ${replica})`;

describePostgres("the audit of what replicas have reserved and run", () => {
  const ledger = serverLedger();

  describe("finds", () => {
    test.each<[string, string[], string]>([
      [
        "a reserve without a block",
        [live, reserveBob],
        "account bob: what is reserved is not the sum of the blocks of its replicas",
      ],
      [
        "a block that is not reserved",
        [live, block(7, 2, 0, 5)],
        "account bob: what is reserved is not the sum of the blocks of its replicas",
      ],
      [
        "a block of a budget said to be one of the account",
        [live, block(7, 2, 2, 5), reserveBob],
        "account bob: what is reserved is not the sum of the blocks of its replicas",
      ],
      [
        "a block of a replica that has ended",
        [gone, block(8, 2, 0, 5), reserveBob],
        "replica 8: has ended, but has money reserved",
      ],
      [
        "a block of no replica",
        [block(9, 2, 0, 5), reserveBob],
        "replica 9: is not there, but has money reserved",
      ],
      [
        "a block below zero",
        [live, gone, block(7, 2, 0, -5)],
        "replica 7: has reserved for an account that is not there, or a block that is not above zero",
      ],
      [
        "a block of no account",
        [live, block(7, 9, 0, 5)],
        "replica 7: has reserved for an account that is not there, or a block that is not above zero",
      ],
      [
        "a block of a budget that is not of the account's own key",
        [live, block(7, 2, 1, 5)],
        "replica 7: has reserved of the budget of a key that begins no rotation chain of the account",
      ],
      [
        "a block of a budget of a later key",
        [live, block(7, 1, 3, 5)],
        "replica 7: has reserved of the budget of a key that begins no rotation chain of the account",
      ],
      [
        "blocks above what the account can pay",
        [live, block(7, 2, 0, 500_001), "UPDATE accounts SET reserved = 500001 WHERE id = 2"],
        "account bob: has a reserve below zero, or above what it can pay",
      ],
      [
        "a request that runs at a replica that has ended",
        [gone, runDone("8")],
        "request req_open: is running, but no replica runs it",
      ],
      [
        "a request that runs at no replica",
        [runDone("NULL")],
        "request req_open: is running, but no replica runs it",
      ],
      [
        "a request that has ended and still has a replica",
        [live, "UPDATE requests SET replica_id = 7 WHERE public_id = 'req_done'"],
        "request req_done: has ended, but a replica runs it",
      ],
      [
        "a ref that is there twice",
        [
          "ALTER TABLE ledger DROP CONSTRAINT ledger_ref_unique",
          "UPDATE ledger SET ref = 'x' WHERE kind = 'credit'",
        ],
        "ledger row 1: its ref is there more than once",
      ],
      [
        "a request that is there twice",
        [
          "ALTER TABLE requests DROP CONSTRAINT requests_public_id_unique",
          "UPDATE requests SET public_id = 'req_done' WHERE public_id = 'req_next'",
        ],
        "request req_done: its public_id is there more than once",
      ],
      [
        "two keys with one secret",
        [
          "ALTER TABLE keys DROP CONSTRAINT keys_hash_unique",
          "UPDATE keys SET hash = '\\x01' WHERE id > 1",
        ],
        "key key_bob: its hash is there more than once",
      ],
    ])("%s", async (_, statements, problem) => {
      await ledger.tamper(...statements);
      expect((await ledger.audit()).problems).toContain(problem);
    });
  });

  test("has no word about the blocks and requests of a replica that is alive", async () => {
    await ledger.tamper(live, block(7, 2, 0, 5), reserveBob, runDone("7"));
    expect(await ledger.audit()).toMatchObject({ problems: [], notes: [] });
  });

  test("notes what the next gateway ends, once no replica sends a heartbeat", async () => {
    await ledger.tamper(silent, block(7, 2, 0, 5), reserveBob, runDone("7"));
    expect(await ledger.audit()).toMatchObject({
      problems: [],
      notes: [
        "request req_open: is set to interrupted when a gateway starts",
        "account bob: its reserve is released when a gateway starts",
        "replica 7: sends no heartbeat, and ends when a gateway starts",
      ],
    });
  });

  test.each([
    ["NULL", 1],
    ["5", 6],
  ])("notes blocks above what is left of a budget of %s", async (budget, amount) => {
    const note = "key key_bob: its replicas have reserved more than what is left of its budget";
    await ledger.tamper(
      live,
      `UPDATE keys SET budget = ${budget} WHERE id = 2`,
      block(7, 2, 2, amount),
    );
    expect(await ledger.audit()).toMatchObject({ problems: [], notes: [note] });
    await ledger.tamper(`UPDATE keys SET budget = ${amount} WHERE id = 2`);
    expect((await ledger.audit()).notes).toEqual([]);
  });
});

describePostgres("the audit of a database that replicas serve from", () => {
  test("is clean while they run and after one was killed, and tells how far it is", async () => {
    await using database = await replicaDatabase();
    await using books = new Books(database.url);
    const owner = await books.open("alice", 1_000_000n, { budget: 1_000_000n });
    const address = { url: database.url, shownUrl: "postgres://server/replicas" };
    await using replica = await openReplica(database.url);
    await replica.reserve({
      accountId: owner.accountId,
      reserved: "500000",
      chains: [{ firstKeyId: owner.firstKeyId, reserved: "400000" }],
    });
    await replica.record(running("req_open", owner));
    const told: AuditProgress[] = [];
    const report = await auditServerApart(address, {
      onProgress: (progress) => told.push(progress),
    });
    expect(report).toEqual({ accounts: 1, requests: 1, problems: [], notes: [] });
    expect(new Set(told.map(({ what }) => what))).toEqual(
      new Set(["rules", "histories", "totals"]),
    );
    expect(told.every(({ done, total }) => done <= total)).toBe(true);
    await replica.abandon();
    await books.sql`UPDATE replicas SET seen_at = 0`;
    const { problems, notes } = await auditServerApart(address);
    expect(problems).toEqual([]);
    expect(notes).toHaveLength(3);
  });

  test("that is ended says nothing more, and leaves no connection", async () => {
    await using database = await replicaDatabase();
    await using books = new Books(database.url);
    await books.open("alice", 5n);
    const told: AuditProgress[] = [];
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const ending = new AbortController();
    const onProgress = (progress: AuditProgress): void => {
      told.push(progress);
      resolve();
    };
    const address = { url: database.url, shownUrl: "" };
    const audit = auditServerApart(address, { onProgress, signal: ending.signal });
    const report = audit.catch(() => undefined);
    await begun;
    ending.abort();
    const before = told.length;
    const others = async (): Promise<unknown[]> =>
      await books.sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE '%transaction%'`;
    while ((await others()).length > 0) await Bun.sleep(5);
    expect([told.length, await report]).toEqual([before, undefined]);
  });

  test("rejects in words if the server cannot be reached", async () => {
    const url = "postgres://tollgate@127.0.0.1:1/none";
    expect(auditServerApart({ url, shownUrl: url })).rejects.toThrow(
      `the database ${url} cannot be used`,
    );
  });
});
