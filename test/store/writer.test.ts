import { describe, expect, test } from "bun:test";
import { connect } from "../../src/store/sqlite.ts";
import { startWriter, WriteError } from "../../src/store/store.ts";
import { costOfEnded, ended, fund, opened } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import type { WriteOperation } from "../../src/store/writer/writerMessages.ts";
import {
  decodeOperations,
  encodeOperations,
  resultFromWire,
  resultToWire,
} from "../../src/store/writer/writerMessages.ts";

/** Each of two tries that were asked for before may wait five seconds for the lock. */
const CLOSED_WITHIN_MS = 14_000;
const RETRY_MS = 200;

const storeFolder = openStoreBefore({ audited: false });

describe("the writer", () => {
  test("does the others of a batch in their order when one operation of it is refused", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    // Asked for in one turn, before the Worker can have begun, they are one batch.
    const results = await Promise.allSettled([
      writer.write({ kind: "openRequest", request: opened("req_1", owner) }),
      writer.write({ kind: "settleRequest", settlement: ended("req_unknown") }),
      writer.write({ kind: "openRequest", request: opened("req_1", owner) }),
      writer.write({ kind: "settleRequest", settlement: ended("req_1") }),
      writer.write({ kind: "settleRequest", settlement: ended("req_1") }),
      writer.write({ kind: "touchKey", keyId: owner.keyId, at: 77 }),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "rejected",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect(store.accounts.find("alice")?.balance).toBe(1_000_000n - costOfEnded);
    expect(store.keys.find("key_alice")?.lastUsedAt).toBe(77);
    expect(store.audit().problems).toEqual([]);
  });

  test("charges a thousand requests at once, each exactly once", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000_000n);
    const ids = Array.from({ length: 1000 }, (_, at) => `req_${at}`);
    await Promise.all(
      ids.flatMap((id) => [
        writer.write({ kind: "openRequest", request: opened(id, owner) }),
        writer.write({ kind: "settleRequest", settlement: ended(id) }),
      ]),
    );
    expect(store.accounts.find("alice")?.balance).toBe(1_000_000_000n - 1000n * costOfEnded);
    expect(store.audit()).toEqual({ accounts: 1, requests: 1000, problems: [], notes: [] });
  });

  test("has committed what it answered: another connection sees it at once", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    for (let at = 0; at < 20; at++) {
      await writer.write({
        kind: "openRequest",
        request: opened(`req_${at}`, owner, { hold: 1n }),
      });
      expect(store.requests.find(`req_${at}`)?.status).toBe("running");
    }
  });

  test("does not settle a request whose insert it refused, though the settlement is already queued", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 100n);
    const results = await Promise.allSettled([
      writer.write({
        kind: "openRequest",
        request: opened("req_1", owner, { hold: 101n, heldTotal: 101n }),
      }),
      writer.write({ kind: "settleRequest", settlement: ended("req_1") }),
      writer.write({ kind: "touchKey", keyId: owner.keyId, at: 77 }),
    ]);
    const failures = results.map((result) => result.status === "rejected" && result.reason.failure);
    expect(failures).toEqual(["insufficient", "refused", false]);
    expect(store.accounts.find("alice")?.balance).toBe(100n);
    expect(store.audit()).toEqual({ accounts: 1, requests: 0, problems: [], notes: [] });
  });

  test("takes what it wrote over into the database, so that the log does not grow", async () => {
    const { store, writer, path } = storeFolder;
    const owner = fund(store, "alice", 1_000_000_000n);
    for (let at = 0; at < 600; at++) {
      await writer.write({ kind: "openRequest", request: opened(`req_${at}`, owner) });
      await writer.write({ kind: "settleRequest", settlement: ended(`req_${at}`) });
    }
    // Each request writes some 60 KB of pages to the log: all of them would be 36 MB.
    expect(Bun.file(`${path}-wal`).size).toBeLessThan(12_000_000);
    expect(store.audit().problems).toEqual([]);
  });

  test("ends only after what it was asked before", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    const open = writer.write({ kind: "openRequest", request: opened("req_1", owner) });
    const end = writer.write({ kind: "settleRequest", settlement: ended("req_1") });
    await writer.close();
    expect(await Promise.all([open, end])).toHaveLength(2);
    expect(store.requests.find("req_1")?.status).toBe("done");
  });

  test(
    "ends though another process has the database locked, and two ends are tried again and again",
    async () => {
      const { store, writer, path } = storeFolder;
      const owner = fund(store, "alice", 1_000_000n);
      let isOver = false;
      const tryToEnd = async (id: string): Promise<void> => {
        for (;;) {
          try {
            await writer.write({ kind: "settleRequest", settlement: ended(id) });
            return;
          } catch (error) {
            if (!(error instanceof WriteError) || error.failure !== "busy") throw error;
            // As an answer does between its tries; the other one is with the Worker meanwhile.
            await Bun.sleep(RETRY_MS);
          }
        }
      };
      for (const id of ["req_1", "req_2"])
        await writer.write({ kind: "openRequest", request: opened(id, owner) });
      const { sqlite: other } = connect(path, "process");
      other.run("BEGIN IMMEDIATE");
      try {
        const first = tryToEnd("req_1");
        await Bun.sleep(RETRY_MS / 2);
        const trials = Promise.allSettled([first, tryToEnd("req_2")]);
        const closed = writer.close().then(() => (isOver = true));
        await Promise.race([closed, Bun.sleep(CLOSED_WITHIN_MS)]);
        expect(isOver).toBe(true);
        const failures = (await trials).map((one) => one.status === "rejected" && one.reason);
        expect(failures.map(({ failure }) => failure)).toEqual(["refused", "refused"]);
      } finally {
        other.run("ROLLBACK");
        other.close();
      }
    },
    2 * CLOSED_WITHIN_MS,
  );

  test("does nothing and answers nothing after a fatal failure, though more was queued", async () => {
    const { store, path } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    const fatal: string[] = [];
    const failed = Promise.withResolvers<void>();
    const writer = startWriter({ path, durability: "process" }, (message) => {
      fatal.push(message);
      failed.resolve();
    });
    const answered: string[] = [];
    const note = (what: string) => () => answered.push(what);
    await writer.write({ kind: "openRequest", request: opened("req_a", owner) });
    // The other writer too has prepared its statements by then.
    await storeFolder.writer.write({ kind: "touchKey", keyId: owner.keyId, at: 77 });
    breakInserts(path);
    void writer
      .write({ kind: "openRequest", request: opened("req_b", owner) })
      .then(note("b is opened"), note("b is refused"));
    // In its own turn, and so in a batch of its own behind the one that fails.
    await Promise.resolve();
    void writer
      .write({ kind: "settleRequest", settlement: ended("req_a") })
      .then(note("a is ended"), note("a is not ended"));
    await failed.promise;
    // Nothing is to come that could be waited for: what the Worker says behind the failure comes within some ms.
    await Bun.sleep(FATAL_SILENCE_MS);
    await writer.close();
    expect({ answered, fatal }).toEqual({ answered: [], fatal: [expect.any(String)] });
    expect(writer.isBroken).toBe(true);
    expect(store.requests.find("req_a")?.status).toBe("running");
    expect(store.requests.find("req_b")).toBeUndefined();
  });
});

const FATAL_SILENCE_MS = 200;

/** Lets each opening of a request fail by a code that is no refusal, as an error of the disk is none. */
function breakInserts(path: string): void {
  const { sqlite } = connect(path, "process");
  sqlite.run("CREATE TRIGGER broken BEFORE INSERT ON requests BEGIN SELECT * FROM nowhere; END");
  sqlite.close();
}

const owner = { accountId: 3, keyId: 9 };
const beyondDoubles = 9_007_199_254_740_993n;
/** Each kind has its own, so that one which is added is asked for here. */
const operations: {
  [Kind in WriteOperation["kind"]]: readonly Extract<WriteOperation, { kind: Kind }>[];
} = {
  openRequest: [{ kind: "openRequest", request: opened("req_1", owner, { hold: beyondDoubles }) }],
  settleRequest: [
    {
      kind: "settleRequest",
      settlement: ended("req_1", { cost: beyondDoubles, operatorCost: -beyondDoubles }),
    },
    {
      kind: "settleRequest",
      settlement: ended("req_2", { provider: null, operatorCost: null, firstByteMs: null }),
    },
  ],
  recordOwners: [
    {
      kind: "recordOwners",
      objects: [
        {
          hash: new Uint8Array([0, 127, 255]),
          accountId: 3,
          provider: "p",
          expiresAt: 77,
          historyTokens: 9,
        },
        { hash: new Uint8Array([1]), accountId: 4, provider: "q", expiresAt: 78, historyTokens: 0 },
      ],
      at: 77,
    },
  ],
  touchKey: [{ kind: "touchKey", keyId: 9, at: 77 }],
  probe: [{ kind: "probe" }],
  fold: [{ kind: "fold", before: 77 }],
};

test("an operation reaches the writer with each of its fields as it was", () => {
  const all = Object.values(operations).flat();
  expect(decodeOperations(encodeOperations(all))).toStrictEqual(all);
});

test("what came of it comes back to the last nano-rouble", () => {
  const result = { charge: beyondDoubles, writeOff: 1n, folded: 3 };
  expect(resultFromWire(resultToWire(result))).toStrictEqual(result);
});
