import { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/time.ts";
import { NANO_ROUBLES_MAX } from "../../src/lib/money.ts";
import {
  actor,
  ended,
  fund,
  opened,
  openStoreFolder,
  type StoreFolder,
} from "../support/store/storeFolder.ts";

const TOKENS = 1_000_000_000;
/** Of what two bookings of the largest amount may be, and four may not. */
const priceOutput = NANO_ROUBLES_MAX / BigInt(TOKENS);

let storeFolder: StoreFolder;
let alice: { accountId: number; keyId: number };
beforeEach(async () => {
  storeFolder = await openStoreFolder();
  alice = fund(storeFolder.store, "alice", NANO_ROUBLES_MAX);
});
afterEach(async () => {
  const { problems } = storeFolder.store.audit();
  await storeFolder.close();
  expect(problems).toEqual([]);
});

function credit(): void {
  const booking = { account: "alice", kind: "credit", ref: null, note: null } as const;
  storeFolder.store.admin.changeBalance(actor, { ...booking, amount: NANO_ROUBLES_MAX });
}

test("the audit adds up charges and refunds of several days that together leave 64 bits", async () => {
  credit();
  for (let day = 0; day < 3; day += 1) {
    for (const id of [`req_${day}_1`, `req_${day}_2`]) {
      const hold = NANO_ROUBLES_MAX;
      const request = opened(id, alice, { at: actor.at + day * DAY_MS, priceOutput, hold });
      await storeFolder.writer.write({ kind: "openRequest", request });
      const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0 };
      const end = ended(id, { ...tokens, completionTokens: TOKENS, cost: NANO_ROUBLES_MAX });
      expect(
        await storeFolder.writer.write({ kind: "settleRequest", settlement: end }),
      ).toMatchObject({ writeOff: 0n });
      if (day < 2)
        storeFolder.store.admin.refund(actor, { request: id, amount: null, ref: null, note: null });
    }
  }
  expect(storeFolder.store.audit().problems).toEqual([]);
  expect(storeFolder.store.keys.list("alice")).toMatchObject([{ spent: 2n * NANO_ROUBLES_MAX }]);
});

test("an account that was promised more than 64 bits hold can be shown, charged and refused", async () => {
  credit();
  // No command allows that any more.
  const sqlite = new Database(storeFolder.path);
  sqlite.run("UPDATE accounts SET overdraft = 4000000000000000000");
  sqlite.close();
  for (const id of ["req_1", "req_2", "req_3"]) {
    const request = opened(id, alice, { hold: NANO_ROUBLES_MAX });
    await storeFolder.writer.write({ kind: "openRequest", request });
  }
  expect(storeFolder.store.accounts.find("alice")).toMatchObject({ held: 3n * NANO_ROUBLES_MAX });
  const more = opened("req_4", alice, { hold: 1n, promised: 3n * NANO_ROUBLES_MAX + 1n });
  expect(
    await storeFolder.writer.write({ kind: "openRequest", request: more }).catch(String),
  ).toContain("cannot pay the hold");
  // Beyond its hold nothing is left for it.
  await storeFolder.writer.write({ kind: "settleRequest", settlement: ended("req_1") });
  for (const id of ["req_2", "req_3"])
    await storeFolder.writer.write({
      kind: "settleRequest",
      settlement: ended(id, { status: "cancelled" }),
    });
  expect(storeFolder.store.accounts.find("alice")).toMatchObject({ held: 0n });
});
