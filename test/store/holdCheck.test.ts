import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { OpenedRequest } from "../../src/store/store.ts";
import {
  actor,
  costOfEnded,
  ended,
  fund,
  opened,
  openStoreFolder,
  type StoreFolder,
} from "../support/store/storeFolder.ts";

let storeFolder: StoreFolder;
let owner: { accountId: number; keyId: number };
beforeEach(async () => {
  storeFolder = await openStoreFolder();
  owner = fund(storeFolder.store, "alice", 100_000n);
});
afterEach(async () => {
  const { problems } = storeFolder.store.audit();
  await storeFolder.close();
  expect(problems.filter((problem) => !problem.includes("still held"))).toEqual([]);
});

/** The row of a request that was promised all its account had; resolves with what became of it. */
function open(id: string, changes: Partial<OpenedRequest> = {}): Promise<unknown> {
  const request = opened(id, owner, { hold: 100_000n, ...changes });
  return storeFolder.writer.write({ kind: "openRequest", request }).then(
    () => "opened",
    (error: unknown) => error,
  );
}

const isInsufficient = { name: "WriteError", failure: "insufficient" };

describe("a request whose money went between its promise and its row is refused", () => {
  test("when a debit took it", async () => {
    const debit = { account: "alice", kind: "debit", amount: 1n, ref: null, note: null } as const;
    storeFolder.store.admin.changeBalance(actor, debit);
    expect(await open("req_1")).toMatchObject(isInsufficient);
    expect(storeFolder.store.requests.find("req_1")).toBeUndefined();
    expect(await open("req_2", { hold: 99_999n })).toBe("opened");
  });

  test("when the overdraft was lowered", async () => {
    storeFolder.store.admin.setOverdraft(actor, "alice", 10n);
    storeFolder.store.admin.setOverdraft(actor, "alice", 9n);
    expect(await open("req_1", { hold: 100_010n })).toMatchObject(isInsufficient);
    expect(await open("req_2", { hold: 100_009n })).toBe("opened");
  });

  test("when a charge beyond its own hold took it, and the neighbours in the batch are not", async () => {
    const bob = fund(storeFolder.store, "bob", 100_000n);
    const rest = 100_000n - costOfEnded;
    const [, , refused, neighbour] = await Promise.all([
      open("req_1", { hold: 10_000n }),
      storeFolder.writer.write({ kind: "settleRequest", settlement: ended("req_1") }),
      open("req_2", { hold: rest + 1n, promised: 10_000n + rest + 1n }),
      open("req_3", { ...bob, hold: 100_000n }),
    ]);
    expect(refused).toMatchObject(isInsufficient);
    expect(neighbour).toBe("opened");
    expect(await open("req_4", { hold: rest, promised: 10_000n + rest })).toBe("opened");
  });
});

test("a request is opened that fits the money, whatever was promised to those that ended since", async () => {
  expect(await open("req_1", { hold: 40_000n, promised: 1_000_000n })).toBe("opened");
  expect(await open("req_2", { hold: 60_000n, promised: 1_000_000n })).toBe("opened");
  expect(await open("req_3", { hold: 1n, promised: 1_000_000n })).toMatchObject(isInsufficient);
});
