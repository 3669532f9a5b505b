import { describe, expect, test } from "bun:test";
import { connect } from "../../src/store/sqlite/sqlite.ts";
import { startWriter } from "../../src/store/open.ts";
import { costOfEnded, ended, fund, recordMany, running } from "../support/store/storeFolder.ts";
import { fillStore } from "../support/store/fullStore.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import type { RequestRecord } from "../../src/store/store.ts";

/** Each of two tries that were asked for before may wait five seconds for the lock. */
const CLOSED_WITHIN_MS = 14_000;
const RETRY_MS = 200;

const storeFolder = openStoreBefore({ audited: false });

const recording = (record: RequestRecord) => ({ kind: "recordRequest", record }) as const;

/** A request that is not charged. */
const UNBILLED = {
  charge: 0n,
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: 0,
};

describe("the writer", () => {
  test("plans no batch while the owner of the holds is told how the last one ended", async () => {
    const { writer } = storeFolder;
    const seen: string[] = [];
    let more: Promise<unknown> | undefined;
    writer.planner = {
      planBatch() {
        seen.push("planned");
        return [];
      },
      batchEnded() {
        seen.push("is told");
        more ??= writer.write({ kind: "reserve" });
        seen.push("was told");
      },
    };
    await writer.write({ kind: "reserve" });
    await more;
    expect(seen).toEqual(["planned", "is told", "was told", "planned", "is told", "was told"]);
  });

  test("does the others of a batch in their order when one operation of it is refused", async () => {
    const { store, writer } = storeFolder;
    const owner = await fund(store, "alice", 1_000_000n);
    await storeFolder.reserve(owner.accountId, 2n * costOfEnded);
    const other = { ...owner, accountId: 77 };
    // Asked for in one turn, while the writer has nothing to do: one alone, and the others in one batch.
    const results = await Promise.allSettled([
      writer.write(recording(running("req_1", owner))),
      writer.write(recording(ended("req_unknown", other))),
      writer.write(recording(running("req_1", owner, { mayHaveRow: false }))),
      writer.write(recording(ended("req_1", owner))),
      writer.write(recording(ended("req_1", owner))),
      writer.write({
        kind: "touchKey",
        accountId: owner.accountId,
        keyId: owner.keyId,
        at: 77,
        address: null,
      }),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "rejected",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect((await store.accounts.find("alice"))?.balance).toBe(1_000_000n - costOfEnded);
    expect((await store.keys.find("key_alice"))?.lastUsedAt).toBe(77);
    expect((await store.auditHere()).problems).toEqual([]);
  });

  test("stays blocked on a full disk after a write that changes nothing", async () => {
    const { store, writer, path } = storeFolder;
    const { accountId, keyId } = await fund(store, "alice", 0n);
    const touchKey = { kind: "touchKey", accountId, keyId, at: 77, address: null } as const;
    const makeRoom = fillStore(path);
    expect(await writer.write(touchKey).catch(String)).toContain("StoreFull");
    for (const operation of [{ kind: "reserve" }, { kind: "fold", before: 0 }] as const) {
      await writer.write(operation);
      expect(writer.blockedBy).toBe("full");
    }
    makeRoom();
    await writer.write(touchKey);
    expect(writer.blockedBy).toBeUndefined();
  });

  test("charges a thousand requests at once, each exactly once", async () => {
    const { store } = storeFolder;
    const owner = await fund(store, "alice", 1_000_000_000n);
    const ids = Array.from({ length: 1000 }, (_, at) => `req_${at}`);
    await recordMany(storeFolder, owner, ids);
    expect((await store.accounts.find("alice"))?.balance).toBe(
      1_000_000_000n - 1000n * costOfEnded,
    );
    expect(await store.auditHere()).toEqual({
      accounts: 1,
      requests: 1000,
      problems: [],
      notes: [],
    });
  });

  test("has committed what it answered: another connection sees it at once", async () => {
    const { store, writer } = storeFolder;
    const owner = await fund(store, "alice", 1_000_000n);
    for (let at = 0; at < 20; at++) {
      await writer.write(recording(running(`req_${at}`, owner)));
      expect((await store.requests.find(`req_${at}`))?.status).toBe("running");
    }
  });

  test("refuses a charge that its account has not reserved, and does the others of the batch", async () => {
    const { store, writer } = storeFolder;
    const owner = await fund(store, "alice", 2n * costOfEnded);
    await storeFolder.reserve(owner.accountId, costOfEnded);
    const results = await Promise.allSettled([
      writer.write(recording(ended("req_1", owner))),
      writer.write(recording(ended("req_2", owner))),
      writer.write({
        kind: "touchKey",
        accountId: owner.accountId,
        keyId: owner.keyId,
        at: 77,
        address: null,
      }),
    ]);
    const failures = results.map((result) => result.status === "rejected" && result.reason.failure);
    expect(failures).toEqual([false, "insufficient", false]);
    expect(await store.accounts.find("alice")).toMatchObject({
      balance: costOfEnded,
      reserved: 0n,
    });
    expect(await store.auditHere()).toEqual({ accounts: 1, requests: 1, problems: [], notes: [] });
  });

  test("takes what it wrote over into the database, so that the log does not grow", async () => {
    const { store, writer, path } = storeFolder;
    const owner = await fund(store, "alice", 1_000_000_000n);
    for (let at = 0; at < 600; at++) {
      await writer.write(recording(running(`req_${at}`, owner)));
      await storeFolder.record(ended(`req_${at}`, owner));
    }
    // Each request writes some 60 KB of pages to the log: all of them would be 36 MB.
    expect(Bun.file(`${path}-wal`).size).toBeLessThan(12_000_000);
    expect((await store.auditHere()).problems).toEqual([]);
  });

  test("ends only after what it was asked before", async () => {
    const { store, writer } = storeFolder;
    const owner = await fund(store, "alice", 1_000_000n);
    await storeFolder.reserve(owner.accountId, costOfEnded);
    const open = writer.write(recording(running("req_1", owner)));
    const end = writer.write(recording(ended("req_1", owner)));
    await writer.close();
    expect(await Promise.all([open, end])).toHaveLength(2);
    expect((await store.requests.find("req_1"))?.status).toBe("done");
  });

  test(
    "ends though another process has the database locked, and two ends are tried again and again",
    async () => {
      const { store, writer, path } = storeFolder;
      const owner = await fund(store, "alice", 1_000_000n);
      let isOver = false;
      await storeFolder.reserve(owner.accountId, 2n * costOfEnded);
      const { sqlite: other } = connect(path, "process");
      other.run("BEGIN IMMEDIATE");
      try {
        const first = writer.writeWithin(recording(ended("req_1", owner)));
        await Bun.sleep(RETRY_MS / 2);
        const second = writer.writeWithin(recording(ended("req_2", owner)));
        const trials = Promise.allSettled([first, second]);
        const closed = writer.close().then(() => (isOver = true));
        await Promise.race([closed, Bun.sleep(CLOSED_WITHIN_MS)]);
        expect(isOver).toBe(true);
        const failures = (await trials).map((one) => one.status === "rejected" && one.reason);
        for (const { failure } of failures) expect(failure).toBeOneOf(["busy", "refused"]);
      } finally {
        other.run("ROLLBACK");
        other.close();
      }
    },
    2 * CLOSED_WITHIN_MS,
  );

  test("does nothing and answers nothing after a fatal failure, though more was queued", async () => {
    const { store, path } = storeFolder;
    const owner = await fund(store, "alice", 1_000_000n);
    const fatal: string[] = [];
    const failed = Promise.withResolvers<void>();
    const writer = startWriter({ path, durability: "process" }, (message) => {
      fatal.push(message);
      failed.resolve();
    });
    const answered: string[] = [];
    const note = (what: string) => () => answered.push(what);
    await writer.write(recording(running("req_a", owner)));
    // The other writer too has prepared its statements by then.
    await storeFolder.writer.write({
      kind: "touchKey",
      accountId: owner.accountId,
      keyId: owner.keyId,
      at: 77,
      address: null,
    });
    breakInserts(path);
    void writer
      .write(recording(running("req_b", owner)))
      .then(note("b is opened"), note("b is refused"));
    // In its own turn, and so in a batch of its own behind the one that fails.
    await Promise.resolve();
    void writer
      .write(recording(ended("req_a", owner, { status: "failed", ...UNBILLED })))
      .then(note("a is ended"), note("a is not ended"));
    await failed.promise;
    // Nothing is to come that could be waited for: what the Worker says behind the failure comes within some ms.
    await Bun.sleep(FATAL_SILENCE_MS);
    await writer.close();
    expect({ answered, fatal }).toEqual({ answered: [], fatal: [expect.any(String)] });
    expect(writer.isBroken).toBe(true);
    expect((await store.requests.find("req_a"))?.status).toBe("running");
    expect(await store.requests.find("req_b")).toBeUndefined();
  });
});

const FATAL_SILENCE_MS = 200;

/** Lets each opening of a request fail by a code that is no refusal, as an error of the disk is none. */
function breakInserts(path: string): void {
  const { sqlite } = connect(path, "process");
  sqlite.run("CREATE TRIGGER broken BEFORE INSERT ON requests BEGIN SELECT * FROM nowhere; END");
  sqlite.close();
}

test("each field of a request reaches its row, to the last nano-rouble", async () => {
  const { store, writer } = storeFolder;
  const beyondDoubles = 9_007_199_254_740_993n;
  const owner = await fund(store, "alice", 0n);
  const record = ended("req_1", owner, {
    status: "cancelled",
    charge: 0n,
    writeOff: costOfEnded,
    hold: beyondDoubles,
    operatorCost: beyondDoubles,
    stream: true,
    estimated: true,
    at: 1_800_000_000_123,
    endpoint: "responses",
  });
  await writer.write(recording(record));
  const {
    publicId,
    accountId,
    keyId: _,
    firstKeyId: __,
    mayHaveRow: ___,
    attempts,
    ...rest
  } = record;
  // The price of a figure is stored with its quantity only.
  const price = { ...rest.price, webSearch: 0n };
  expect(await store.requests.find("req_1")).toMatchObject({
    ...rest,
    price,
    id: publicId,
    accountId,
  });
  expect(await store.requests.attempts("req_1")).toEqual([...attempts]);
});
