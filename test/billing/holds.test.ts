import { describe, expect, test } from "bun:test";
import { assert } from "fast-check";
import type { Hold, HoldResult } from "../../src/billing/hold.ts";
import { LocalHolds } from "../../src/billing/localHolds.ts";
import type { WriteError } from "../../src/store/store.ts";
import { HoldsDatabase, type BatchFate } from "../support/histories/holdsDatabase.ts";
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

interface Money {
  readonly balance?: bigint;
  readonly overdraft?: bigint;
  readonly budget?: bigint;
}

/** Holds over a database with one account. */
function open({ balance = 0n, overdraft = 0n, budget }: Money) {
  const database = new HoldsDatabase(false, () => {});
  database.accounts.set(ACCOUNT, { balance, overdraft, reserved: 0n, seq: 0 });
  database.chains.set(KEY, { budget: budget ?? null, spent: 0n });
  const holds = new LocalHolds({
    store: { funds: database, changes: database },
    writer: database.writer,
    clock: { epochMs: () => 0, monotonicMs: () => 0 },
    refuse() {},
  });
  return {
    database,
    holds,
    account: () => database.accounts.get(ACCOUNT),
    /** Holds exactly this, or throws. */
    hold: (amount: bigint, requestId = "request") =>
      held(holds.take(ownerOf(requestId), exactly(amount))),
    /** Queues the end of a request. */
    end: (hold: Hold, charge: bigint, requestId = "request"): Promise<object> => {
      const record = { publicId: requestId, accountId: ACCOUNT, firstKeyId: KEY, charge };
      return database.writeWithin({ kind: "recordRequest", record }, [hold]);
    },
    /** Sends what is queued, and lets it end. */
    batch: (fate: BatchFate = "committed", word = 0): void => {
      database.send();
      database.end(fate, word);
      database.hear();
    },
  };
}

const ownerOf = (requestId: string) => ({ accountId: ACCOUNT, keyId: KEY, requestId });
const exactly = (amount: bigint) => ({ least: amount, most: amount, step: 1n });

function held(result: HoldResult): Hold {
  if (!result.ok) throw new Error(`refused: ${result.reason}`);
  return result.hold;
}

/** `secured`, `waiting`, or why it failed. */
async function stateOf(hold: Hold): Promise<string> {
  if (hold.secured === undefined) return "secured";
  const settled = hold.secured.then(
    () => "secured",
    (error: WriteError) => error.failure,
  );
  return await Promise.race([settled, Bun.sleep(0).then(() => "waiting")]);
}

test.each([
  [false, "has it", true],
  [true, "is given nothing", false],
])(
  "decides once more when hold_wait ends; after a disconnect (%j) it %s",
  async (aborted, _, isHeld) => {
    const { database, holds, hold } = open({ balance: 100n });
    const first = hold(100n);
    const signal = { aborted: false };
    const second = holds.takeOrWait({ waitMs: 20, signal }, ownerOf("second"), exactly(100n));
    database.credit(ACCOUNT, 100n);
    signal.aborted = aborted;
    const taken = await second;
    expect(taken.ok).toBe(isHeld);
    expect(holds.total()).toBe(isHeld ? 200n : 100n);
    first.release();
    if (taken.ok) taken.hold.release();
    expect(holds.total()).toBe(0n);
  },
);

test("an error of the database fails the waiting request, and not the request that releases its hold", async () => {
  const { database, holds, hold } = open({ balance: 100n });
  const first = hold(100n);
  const holdWait = { waitMs: 5000, signal: { aborted: false } };
  const asked = Promise.allSettled([
    holds.takeOrWait(holdWait, ownerOf("second"), exactly(100n)),
    holds.takeOrWait(holdWait, ownerOf("third"), exactly(100n)),
  ]);
  let isBroken = true;
  const current = database.current.bind(database);
  database.current = () => {
    if (!isBroken) return current();
    isBroken = false;
    throw new Error("database unreadable");
  };
  first.release();
  expect(await asked).toMatchObject([
    { status: "rejected", reason: new Error("database unreadable") },
    { status: "fulfilled", value: { ok: true } },
  ]);
});

describe("the reserve", () => {
  test("is twice what is held, and secures the holds after it at once", async () => {
    const { hold, batch, account } = open({ balance: 1000n });
    const first = hold(100n);
    expect(await stateOf(first)).toBe("waiting");
    batch();
    expect(account()?.reserved).toBe(200n);
    expect(await stateOf(first)).toBe("secured");
    expect(hold(100n, "second").secured).toBeUndefined();
  });

  test("is never more than the account can pay", () => {
    const { hold, batch, account } = open({ balance: 100n, overdraft: 50n });
    hold(140n);
    batch();
    expect(account()?.reserved).toBe(150n);
  });

  test("stays between what is held and four times that, and does not change then", async () => {
    const { hold, end, batch, account } = open({ balance: 1000n });
    const first = hold(100n);
    batch();
    const second = hold(20n, "second");
    void end(first, 10n);
    batch();
    expect(account()?.reserved).toBe(190n);
    expect(await stateOf(second)).toBe("secured");
  });

  test("is lowered to what is held when the gateway stops", () => {
    const { holds, hold, batch, account, database } = open({ balance: 1000n });
    hold(100n);
    batch();
    holds.close();
    batch();
    expect(account()?.reserved).toBe(100n);
    expect(database.queued).toBe(0);
  });

  test("is lowered by a charge, too, once it is idle", () => {
    const { holds, hold, end, batch, account } = open({ balance: 1000n });
    const first = hold(100n);
    batch();
    holds.close();
    void end(first, 10n);
    batch();
    expect(account()).toMatchObject({ balance: 990n, reserved: 0n });
  });

  test("is not used by a new hold as long as another hold waits for it", async () => {
    const { hold, end, batch, database } = open({ balance: 38n });
    const first = hold(24n, "first");
    database.send();
    database.credit(ACCOUNT, 58n);
    const second = hold(72n, "second");
    database.end("committed", 0);
    database.hear();
    database.send();
    database.credit(ACCOUNT, 59n);
    const third = hold(9n, "third");
    void end(first, 0n, "first");
    batch();
    expect(await stateOf(second)).toBe("secured");
    batch();
    expect(await stateOf(third)).toBe("secured");
  });

  test("is planned again for a hold when the end of another request is refused", async () => {
    const { hold, end, batch } = open({ balance: 60n });
    const first = hold(20n, "first");
    batch();
    const second = hold(40n, "second");
    end(first, 20n, "first").catch(() => {});
    batch("refused", 1);
    expect(await stateOf(second)).toBe("waiting");
    batch();
    expect(await stateOf(second)).toBe("secured");
    expect(await stateOf(first)).toBe("secured");
  });

  test("that the disk has no room for fails the hold with that reason, also in a batch that is committed in part", async () => {
    const { hold, end, batch } = open({ balance: 100n });
    const first = hold(20n, "first");
    batch();
    end(first, 20n, "first").catch(() => {});
    const second = hold(50n, "second");
    // The first write is committed, the second one is refused, and then the disk is full.
    batch("partly", 1 + (2 << 4));
    expect(await stateOf(second)).toBe("full");
  });
});

describe("a command of another process", () => {
  test("takes the money of a hold that is not secured yet", async () => {
    const { hold, batch, database, holds } = open({ balance: 100n });
    const first = hold(100n);
    database.send();
    expect(database.debit(ACCOUNT, 1n)).toBe(true);
    batch();
    expect(await stateOf(first)).toBe("insufficient");
    first.release();
    expect(holds.total()).toBe(0n);
  });

  test("does not take the money of a hold that is secured", async () => {
    const { hold, batch, database } = open({ balance: 100n });
    const first = hold(100n);
    batch();
    expect(database.debit(ACCOUNT, 1n)).toBe(false);
    expect(await stateOf(first)).toBe("secured");
  });

  test("which the gateway has not read does not lower the reserve below the secured holds", async () => {
    const { holds, hold, batch, database, account } = open({ balance: 14n, overdraft: 38n });
    hold(9n, "first");
    database.send();
    const second = hold(7n, "second");
    database.setOverdraft(ACCOUNT, 0n);
    expect(holds.take(ownerOf("third"), exactly(12n)).ok).toBe(false);
    database.setOverdraft(ACCOUNT, 15n);
    batch();
    expect(await stateOf(second)).toBe("secured");
    holds.close();
    batch();
    expect(account()?.reserved).toBe(16n);
  });

  test("changes the overdraft and then the balance: the reserve follows both", async () => {
    const { holds, hold, batch, database, account } = open({ balance: 28n });
    const first = hold(28n);
    database.send();
    database.setOverdraft(ACCOUNT, 15n);
    database.debit(ACCOUNT, 39n);
    batch();
    expect(await stateOf(first)).toBe("insufficient");
    first.release();
    expect(account()?.reserved).toBe(4n);
    holds.close();
    batch();
    expect(account()?.reserved).toBe(0n);
  });

  test("does not let the reserve be used twice while a batch is committed in part", async () => {
    const { hold, end, database, account } = open({ overdraft: 52n });
    const first = hold(30n, "first");
    database.send();
    database.end("committed", 0);
    database.hear();
    const second = hold(11n, "second");
    for (const one of [end(second, 6n, "second"), end(first, 30n, "first")]) one.catch(() => {});
    database.send();
    database.credit(ACCOUNT, 41n);
    database.end("refused", 0);
    hold(15n, "third");
    expect(account()?.reserved).toBe(22n);
    database.hear();
    expect(await stateOf(second)).toBe("secured");
  });
});

describe("the reply of the writer that is older than a read", () => {
  test.each<[string, Money]>([
    ["the balance", { balance: 100n }],
    ["the budget of a key", { balance: 1000n, budget: 100n }],
  ])("counts no charge twice, and loses none, against %s", (_, money) => {
    const { holds, hold, end, batch, database } = open(money);
    const first = hold(60n, "first");
    batch();
    void end(first, 50n, "first");
    database.send();
    database.end("committed", 0);
    // Read after the commit, and before its reply.
    database.credit(ACCOUNT, 5n);
    if (money.budget !== undefined) database.setBudget(KEY, money.budget + 5n);
    const range = { least: 1n, most: 1000n, step: 1n };
    const between = held(holds.take(ownerOf("between"), range));
    expect(between.amount).toBe(55n);
    between.release();
    database.hear();
    expect(held(holds.take(ownerOf("after"), range)).amount).toBe(55n);
  });
});
