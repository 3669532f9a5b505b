import { expect, test } from "bun:test";
import { assert } from "fast-check";
import { createHolds, type FundsReader } from "../../src/billing/holds.ts";
import { holdsHistory } from "../support/histories/holdsHistory.ts";

const histories = 20_000;
const timeoutMs = 60_000;

// `bun scripts/moneyModel.ts holds` tries others.
test(
  `in ${histories} histories no money is held twice, and no free money is refused`,
  () => assert(holdsHistory(), { numRuns: histories, seed: 1, includeErrorInReport: true }),
  timeoutMs,
);

/** Books whose balance a test may change. */
function fundsReaderOf(money: { balance: bigint }): FundsReader {
  const funds = () => ({ balance: money.balance, overdraft: 0n, budget: null, spent: 0n });
  return { funds, fundsWithSettled: () => ({ ...funds(), settledIds: [] }) };
}

const ownerOf = (requestId: string) => ({ accountId: 1, keyId: 1, requestId });
const all = { least: 100n, most: 100n, step: 1n };

test.each([
  [false, "has it", true],
  [true, "is given nothing", false],
])(
  "decides once more when hold_wait ends; after a disconnect (%j) it %s",
  async (aborted, _, isHeld) => {
    const money = { balance: 100n };
    const funds = fundsReaderOf(money);
    const holds = createHolds();
    const first = holds.take(ownerOf("first"), all, funds);
    const signal = { aborted: false };
    const second = holds.takeOrWait({ waitMs: 20, signal }, ownerOf("second"), all, funds);
    money.balance = 200n;
    signal.aborted = aborted;
    const taken = await second;
    expect(taken.ok).toBe(isHeld);
    expect(holds.total()).toBe(isHeld ? 200n : 100n);
    for (const one of [first, taken]) if (one.ok) one.hold.release();
    expect(holds.total()).toBe(0n);
  },
);

test("an error of the funds reader fails the waiting request, and not the request that releases its hold", async () => {
  const funds = fundsReaderOf({ balance: 100n });
  const holds = createHolds();
  const first = holds.take(ownerOf("first"), all, funds);
  const broken = { ...funds };
  const holdWait = { waitMs: 5000, signal: { aborted: false } };
  const asked = Promise.allSettled([
    holds.takeOrWait(holdWait, ownerOf("second"), all, broken),
    holds.takeOrWait(holdWait, ownerOf("third"), all, funds),
  ]);
  broken.funds = () => {
    throw new Error("database unreadable");
  };
  if (first.ok) first.hold.release();
  expect(await asked).toMatchObject([
    { status: "rejected", reason: new Error("database unreadable") },
    { status: "fulfilled", value: { ok: true } },
  ]);
});
