import { afterEach, expect, test } from "bun:test";
import { assert } from "fast-check";
import type { Hold } from "../../src/billing/hold.ts";
import { Holds } from "../../src/billing/holds.ts";
import { HoldsDatabase } from "../support/histories/holdsDatabase.ts";
import { holdsHistory } from "../support/histories/holdsHistory.ts";

const histories = 5000;
const timeoutMs = 60_000;

// `bun run prove holds` tries others.
test(
  `in ${histories} histories no money is held twice, and no free money is refused`,
  () => assert(holdsHistory(), { numRuns: histories, seed: 1, includeErrorInReport: true }),
  timeoutMs,
);

const ACCOUNT = 1;
const KEY = 2;

let opened: Holds | undefined;
afterEach(() => opened?.reset());

/** Holds over a database with one account, of which nobody tells the gateway. */
function open({ balance = 0n, overdraft = 0n, budget = null as bigint | null }) {
  const database = new HoldsDatabase(false);
  database.accounts.set(ACCOUNT, { balance, overdraft, reserved: 0n });
  database.chains.set(KEY, { accountId: ACCOUNT, budget, spent: 0n, reserved: 0n });
  const holds = new Holds({
    writer: database.writer,
    clock: { epochMs: () => 0, monotonicMs: () => 0 },
    random: { fraction: () => 0.5 },
    changes: () => database.changes,
    isAlone: true,
    refuse() {},
  });
  opened = holds;
  const batch = (): void => {
    while (database.queued > 0) {
      database.send();
      database.end("committed", 0);
      database.hear();
    }
  };
  const ask = (amount: bigint) =>
    holds.takeOrWait(
      { waitMs: 0, signal: { aborted: false } },
      { accountId: ACCOUNT, keyId: KEY, requestId: "request" },
      { least: amount, most: amount, step: 1n },
    );
  return {
    database,
    holds,
    batch,
    ask,
    account: () => database.account(ACCOUNT),
    hold: async (amount: bigint): Promise<Hold> => {
      const asked = ask(amount);
      batch();
      const result = await asked;
      if (!result.ok) throw new Error(`refused: ${result.reason}`);
      return result.hold;
    },
    end: (hold: Hold, charge: bigint): void => {
      const record = { publicId: "request", accountId: ACCOUNT, firstKeyId: KEY, charge };
      void database.writeWithin({ kind: "recordRequest", record }, [hold]);
    },
  };
}

test("what a command changes counts at the next request, although nobody tells", async () => {
  const { database, holds, hold, ask, batch } = open({ balance: 100n, budget: 50n });
  await hold(10n);
  expect(ask(10n)).toMatchObject({ ok: true });
  database.setBudget(KEY, 25n);
  expect(holds.refusalOf({ accountId: ACCOUNT, keyId: KEY }, 60n)).toBeUndefined();
  const asked = ask(10n);
  expect(asked).toBeInstanceOf(Promise);
  batch();
  expect(await asked).toMatchObject({ reason: "insufficient", required: 10n, available: 5n });
  expect(holds.refusalOf({ accountId: ACCOUNT, keyId: KEY }, 60n)).toMatchObject({
    reason: "insufficient",
    available: 5n,
  });
});

test("a change is asked about once: the next request does not wait", async () => {
  const { database, hold, ask, batch } = open({ balance: 100n, budget: 50n });
  await hold(10n);
  database.credit(ACCOUNT, 1n);
  expect(ask(1000n)).toBeInstanceOf(Promise);
  batch();
  expect(ask(10n)).toMatchObject({ ok: true });
});

test("a database that cannot be read fails the request that asks, and no other", async () => {
  const { database, hold, ask } = open({ balance: 100n });
  const first = await hold(10n);
  Object.defineProperty(database, "changes", {
    get() {
      throw new Error("database unreadable");
    },
  });
  expect(() => ask(10n)).toThrow("database unreadable");
  expect(() => first.release()).not.toThrow();
});

test("a reserve is at most what the account can pay, and a command cannot take it", async () => {
  const { hold, account, database } = open({ balance: 100n, overdraft: 50n });
  await hold(140n);
  expect(account().reserved).toBe(150n);
  expect(database.debit(ACCOUNT, 1n)).toBe(false);
});

test("a reserve stays between what is held and four times that, and does not change then", async () => {
  const { hold, end, batch, account } = open({ balance: 1000n });
  const first = await hold(100n);
  await hold(20n);
  end(first, 10n);
  batch();
  expect(account().reserved).toBe(190n);
});

test("a reserve is lowered by a charge, too, once it is idle", async () => {
  const { holds, hold, end, batch, account } = open({ balance: 1000n });
  const first = await hold(100n);
  holds.close();
  end(first, 10n);
  batch();
  expect(account()).toMatchObject({ balance: 990n, reserved: 0n });
});
