import { afterEach, describe, expect, test } from "bun:test";
import { assert } from "fast-check";
import type { Hold, HoldResult } from "../../src/billing/hold.ts";
import { WriteError } from "../../src/store/store.ts";
import {
  ACCOUNT,
  BUDGET_KEY,
  PLAIN_KEY,
  ReplicaDatabase,
  type Replica,
} from "../support/histories/replicaDatabase.ts";
import { until } from "../support/until.ts";
import { replicaHistory } from "../support/histories/replicaHistory.ts";

const histories = 1500;
const timeoutMs = 60_000;

// `bun run prove replicas` tries others.
test(
  `in ${histories} histories no replica promises money of another, and none is lost`,
  () => assert(replicaHistory(), { numRuns: histories, seed: 1, includeErrorInReport: true }),
  timeoutMs,
);

const exactly = (amount: bigint) => ({ least: amount, most: amount, step: 1n });

let opened: ReplicaDatabase | undefined;

function open(
  money: { balance: bigint; budget?: bigint; replicas?: number },
  delayMs?: () => number,
) {
  opened = new ReplicaDatabase({ replicas: 1, ...money }, delayMs);
  const [first, second = opened.replicas[0]] = opened.replicas as [Replica, Replica?];
  return { database: opened, first, second: second as Replica };
}

afterEach(() => {
  for (const { holds } of opened?.replicas ?? []) holds.reset();
});

interface Ask {
  readonly range?: { least: bigint; most: bigint; step: bigint };
  readonly amount?: bigint;
  readonly keyId?: number;
  readonly waitMs?: number;
  readonly signal?: { aborted: boolean };
}

function ask(
  replica: Replica,
  { amount = 10n, range = exactly(amount), keyId = PLAIN_KEY, waitMs = 5000, ...rest }: Ask = {},
): HoldResult | Promise<HoldResult> {
  const holdWait = { waitMs, signal: rest.signal ?? { aborted: false } };
  return replica.holds.takeOrWait(holdWait, { accountId: ACCOUNT, keyId, requestId: "id" }, range);
}

/** Asks, and lets the batches of this replica run. */
async function decided(replica: Replica, what?: Ask): Promise<HoldResult> {
  const asked = ask(replica, what);
  replica.settle();
  return await asked;
}

async function held(replica: Replica, what?: Ask): Promise<Hold> {
  const result = await decided(replica, what);
  if (!result.ok) throw new Error(`refused: ${result.reason}`);
  return result.hold;
}

/** Writes the end of a request, and lets the batches of this replica run. */
async function ended(
  replica: Replica,
  keyId: number,
  charge: bigint,
  holds: readonly (Hold | undefined)[],
): Promise<void> {
  const end = replica.end(
    keyId,
    charge,
    holds.filter((hold) => hold !== undefined),
  );
  replica.settle();
  await end;
}

describe("a command that sets or removes a budget while requests are open", () => {
  test("counts what another replica holds as soon as that has been told", async () => {
    const { database, first, second } = open({ balance: 1000n, replicas: 2 });
    await held(first, { amount: 50n, keyId: BUDGET_KEY });
    database.setBudget(50n);
    first.settle();
    const other = await decided(second, { amount: 50n, keyId: BUDGET_KEY, waitMs: 0 });
    expect(other).toMatchObject(refused("insufficient", 50n, 0n));
  });

  test("leaves nothing of the old budget reserved", async () => {
    const { database, first, second } = open({ balance: 1000n, budget: 100n, replicas: 2 });
    const hold = await held(first, { amount: 40n, keyId: BUDGET_KEY });
    database.setBudget(null);
    await ended(first, BUDGET_KEY, 5n, [hold]);
    first.settle();
    database.setBudget(80n);
    first.settle();
    expect(await decided(second, { amount: 70n, keyId: BUDGET_KEY })).toMatchObject({ ok: true });
  });
});

describe("an idle replica", () => {
  test("gives a block of a budget back whose account has nothing more", async () => {
    const { database, first } = open({ balance: 10n, budget: 20n }, () => 1);
    const one = await ask(first, { amount: 10n, keyId: BUDGET_KEY });
    if (one.ok) await first.end(BUDGET_KEY, 10n, [one.hold]);
    const { blocks } = database.chain(BUDGET_KEY);
    await until("nothing is reserved of the budget", () => blocks.get(first) === 0n, 5000);
  });
});

describe("a hold", () => {
  test("waits for one batch if the block does not cover it, and then for none", async () => {
    const { database, first } = open({ balance: 1000n });
    const asked = ask(first, { amount: 100n });
    expect(asked).toBeInstanceOf(Promise);
    first.settle();
    expect(await asked).toMatchObject({ ok: true });
    expect(database.reserved).toBe(200n);
    expect(ask(first, { amount: 100n })).toMatchObject({ ok: true, hold: { secured: undefined } });
    expect(database.batches).toBe(1);
  });

  test("is never more than the block, also while a batch lowers it", async () => {
    const { database, first } = open({ balance: 1000n });
    const one = await held(first, { amount: 100n });
    void first.end(PLAIN_KEY, 10n, [one]);
    first.holds.close();
    first.send();
    expect(ask(first, { amount: 100n })).toBeInstanceOf(Promise);
    first.settle();
    expect(database.balance).toBe(990n);
    expect(first.holds.total()).toBe(100n);
    expect(database.reserved >= 100n).toBe(true);
  });

  test.each<[string, Ask, object]>([
    ["the whole", { amount: 100n }, { ok: true }],
    ["more than the account has", { amount: 101n }, refused("insufficient", 101n, 100n)],
    ["more than the budget", { amount: 51n, keyId: BUDGET_KEY }, refused("insufficient", 51n, 50n)],
    ["the whole budget", { amount: 50n, keyId: BUDGET_KEY }, { ok: true }],
    [
      "up to more than there is",
      { range: { least: 10n, most: 1000n, step: 7n } },
      { ok: true, hold: { amount: 94n } },
    ],
  ])("of %s is decided by the first answer, without a wait", async (_, what, expected) => {
    const { first } = open({ balance: 100n, budget: 50n });
    expect(await decided(first, { ...what, waitMs: 0 })).toMatchObject(expected);
  });

  test("of what an open request holds is refused as busy after hold_wait, and served before", async () => {
    const { first } = open({ balance: 100n }, () => 1);
    const one = await ask(first, { amount: 60n });
    expect(await ask(first, { amount: 60n, waitMs: 20 })).toMatchObject(refused("busy", 60n, 40n));
    const waiting = ask(first, { amount: 60n });
    if (one.ok) one.hold.release();
    expect(await waiting).toMatchObject({ ok: true });
  });

  test("of a client that disconnects is given nothing", async () => {
    const { first } = open({ balance: 100n });
    const signal = { aborted: false };
    const asked = ask(first, { signal });
    signal.aborted = true;
    first.settle();
    expect(await asked).toMatchObject({ ok: false });
    expect(first.holds.total()).toBe(0n);
  });

  test("waits for a new answer after a command has changed the budget", async () => {
    const { database, first } = open({ balance: 1000n, budget: 100n });
    await held(first, { keyId: BUDGET_KEY });
    (await held(first, { keyId: BUDGET_KEY })).release();
    expect(database.batches).toBe(1);
    database.setBudget(15n);
    const asked = ask(first, { keyId: BUDGET_KEY, waitMs: 0 });
    first.settle();
    expect(await asked).toMatchObject({ ok: false, reason: "insufficient" });
  });

  test("is not decided by an answer that was asked for before the request arrived", async () => {
    const { database, first } = open({ balance: 10n });
    const early = ask(first, { amount: 20n });
    first.send();
    first.commit();
    database.credit(30n);
    const late = ask(first, { amount: 20n });
    first.settle();
    expect(await early).toMatchObject({ reason: "insufficient" });
    expect(await late).toMatchObject({ ok: true });
  });

  test("fails with the batch", async () => {
    const { first } = open({ balance: 100n });
    const asked = Promise.allSettled([ask(first)]);
    first.send();
    first.commit(new WriteError("refused", "a trigger"));
    first.hear();
    expect(await asked).toMatchObject([{ status: "rejected", reason: { failure: "refused" } }]);
  });

  test.each(["unreachable", "busy", "locked"] as const)(
    "asks again after a batch that failed as %s",
    async (failure) => {
      const { first } = open({ balance: 100n });
      const asked = ask(first);
      first.send();
      first.commit(new WriteError(failure, "for a moment"));
      first.hear();
      await until("it asks again", () => first.isBusy);
      first.settle();
      expect(await asked).toMatchObject({ ok: true });
    },
  );
});

describe("a request that costs more than its hold", () => {
  test.each([
    ["from the block", 120n, 20n, 20n],
    ["from a larger block", 1000n, 500n, 500n],
    ["only what is left", 150n, 100n, 50n],
  ])("holds more %s", async (_, balance, extra, expected) => {
    const { database, first } = open({ balance });
    const hold = await held(first, { amount: 100n });
    const more = hold.extend(extra);
    first.settle();
    await more?.secured;
    expect(more?.amount).toBe(expected);
    await ended(first, PLAIN_KEY, 100n + expected, [hold, more]);
    expect([database.balance, first.holds.total()]).toEqual([balance - 100n - expected, 0n]);
  });

  test("holds nothing more if nothing is left", async () => {
    const { first } = open({ balance: 100n });
    const hold = await held(first, { amount: 100n });
    const more = hold.extend(1n);
    first.settle();
    expect(await more?.secured?.catch((error: WriteError) => error.failure)).toBe("insufficient");
    more?.release();
    hold.release();
    expect(first.holds.total()).toBe(0n);
  });
});

describe("a block", () => {
  test("is lowered to what is held for another replica, and no further", async () => {
    const { database, first, second } = open({ balance: 100n, replicas: 2 });
    await held(first, { amount: 40n });
    expect(database.reserved).toBe(80n);
    const asked = ask(second, { amount: 60n });
    second.settle();
    expect(first.isWanted).toBe(true);
    first.hearWanted();
    first.settle();
    expect(database.blocks.get(first)).toBe(40n);
    second.holds.changed(ACCOUNT);
    second.settle();
    expect(await asked).toMatchObject({ ok: true });
  });

  test.each([
    ["account", PLAIN_KEY],
    ["budget", BUDGET_KEY],
  ])("of an idle replica reaches the one that needs it: %s", async (_, keyId) => {
    const { first, second } = open({ balance: 100n, budget: 100n, replicas: 2 }, () => 1);
    const idle = await ask(first, { amount: 50n, keyId });
    if (idle.ok) idle.hold.release();
    expect(first.holds.reserved()).toBe(100n);
    const startedMs = performance.now();
    expect(await ask(second, { amount: 100n, keyId })).toMatchObject({ ok: true });
    expect(performance.now() - startedMs).toBeLessThan(500);
  });

  test("of each replica is too little for its request: one is served, then the other", async () => {
    const { database, first, second } = open({ balance: 100n, replicas: 2 }, () => 1);
    const started = await Promise.all([ask(first, { amount: 30n }), ask(second, { amount: 30n })]);
    for (const one of started) if (one.ok) one.hold.release();
    const serve = async (replica: Replica) => {
      const result = await ask(replica, { amount: 90n });
      if (!result.ok) throw new Error(result.reason);
      await replica.end(PLAIN_KEY, 1n, [result.hold]);
    };
    await Promise.all([serve(first), serve(second)]);
    expect(database.balance).toBe(98n);
  });

  test("is given back at the stop", async () => {
    const { database, first } = open({ balance: 100n, budget: 50n });
    (await held(first, { keyId: BUDGET_KEY })).release();
    first.stop();
    expect(database.reserved).toBe(0n);
    expect(database.chain(BUDGET_KEY).blocks.get(first)).toBe(0n);
  });

  test("is given back after a second without a hold", async () => {
    const { database, first } = open({ balance: 100n }, () => 1);
    const one = await ask(first);
    if (one.ok) one.hold.release();
    while (database.reserved > 0n) await Bun.sleep(50);
    expect(first.holds.total()).toBe(0n);
  });
});

describe("a lost lease", () => {
  test("voids the holds, and counts none of them later", async () => {
    const { first } = open({ balance: 100n });
    const old = await held(first, { amount: 40n });
    first.loseLease();
    expect(first.holds.total()).toBe(0n);
    expect(await old.secured?.catch((error: WriteError) => error.message)).toBe("fenced");
    expect(old.extend(1n)).toBeUndefined();
    const hold = await held(first, { amount: 100n });
    old.release();
    expect(first.holds.total()).toBe(100n);
    await ended(first, PLAIN_KEY, 100n, [hold]);
    expect(first.holds.total()).toBe(0n);
  });

  test("ends a request of before without effect on later sums", async () => {
    const { first } = open({ balance: 100n });
    const old = await held(first, { amount: 40n });
    first.loseLease();
    await held(first, { amount: 50n });
    await ended(first, PLAIN_KEY, 0n, [old]);
    expect(first.holds.total()).toBe(50n);
    expect(first.holds.reserved() >= 50n).toBe(true);
  });

  test("refuses the requests that wait, and believes no answer of before", async () => {
    const { first } = open({ balance: 100n });
    const asked = Promise.allSettled([ask(first)]);
    first.send();
    first.commit();
    first.loseLease();
    expect(await asked).toMatchObject([{ status: "rejected", reason: { message: "fenced" } }]);
    const again = ask(first);
    first.hear();
    expect(first.holds.reserved()).toBe(0n);
    first.settle();
    expect(await again).toMatchObject({ ok: true });
  });
});

/** What a request gets while another one holds `heldBefore`. */
describe("a decision", () => {
  test.each<[string, bigint, Ask, object]>([
    ["all that is left", 60n, { amount: 40n }, { ok: true, hold: { amount: 40n } }],
    ["nothing", 100n, { amount: 0n }, { ok: true, hold: { amount: 0n } }],
    ["more than is left", 60n, { amount: 41n }, refused("busy", 41n, 40n)],
    ["more than there is", 60n, { amount: 101n }, refused("insufficient", 101n, 40n)],
    [
      "more than the budget",
      60n,
      { amount: 31n, keyId: BUDGET_KEY },
      refused("insufficient", 31n, 30n),
    ],
    ["what shrinks", 60n, { range: { least: 1n, most: 99n, step: 2n } }, { hold: { amount: 39n } }],
    [
      "what shrinks too far",
      60n,
      { range: { least: 41n, most: 99n, step: 2n } },
      refused("busy", 41n, 40n),
    ],
  ])("about %s", async (_, heldBefore, what, expected) => {
    const replica = open({ balance: 100n, budget: 30n }).first;
    await held(replica, { amount: heldBefore });
    expect(await decided(replica, { ...what, waitMs: 0 })).toMatchObject(expected);
  });
});

test("of 200 requests at once over three replicas on money for ten exactly ten are served (100 seeds)", async () => {
  for (let seed = 1; seed <= 100; seed += 1) {
    const random = randomOf(seed);
    const { database } = open({ balance: 100n, replicas: 3 }, () => random() * 2);
    const results = Array.from({ length: 200 }, async () => {
      const replica = database.replicas[Math.floor(random() * 3)] as Replica;
      const result = await ask(replica, { waitMs: 3000 });
      if (!result.ok) return 0;
      await Bun.sleep(random() * 3);
      await replica.end(PLAIN_KEY, 10n, [result.hold]);
      return 1;
    });
    const served = (await Promise.all(results)).reduce<number>((sum, one) => sum + one, 0);
    const { balance, reserved } = database;
    expect({ seed, served, balance, reserved }).toEqual({
      seed,
      served: 10,
      balance: 0n,
      reserved: 0n,
    });
  }
}, 60_000);

test("a budget over three replicas is spent to its end and never exceeded", async () => {
  const { database } = open({ balance: 10_000n, budget: 100n, replicas: 3 }, () => 1);
  const results = await Promise.all(
    Array.from({ length: 60 }, async (_, at) => {
      const replica = database.replicas[at % 3] as Replica;
      const result = await ask(replica, { keyId: BUDGET_KEY });
      if (result.ok) await replica.end(BUDGET_KEY, 10n, [result.hold]);
      return result.ok;
    }),
  );
  expect(results.filter(Boolean)).toHaveLength(10);
  expect(database.chain(BUDGET_KEY).spent).toBe(100n);
});

function refused(reason: string, required: bigint, available: bigint) {
  return { ok: false, reason, required, available };
}

/** Numbers from 0 to 1 that a seed repeats: https://en.wikipedia.org/wiki/Linear_congruential_generator */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
