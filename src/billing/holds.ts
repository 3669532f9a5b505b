import { assert } from "../lib/assert.ts";
import type { Funds } from "../store/store.ts";
import type { AmountRange } from "./ceiling.ts";

/** Why money could not be held: `short` can never fit, `busy` would but for other open requests. */
export type HoldRefusal =
  | { ok: false; reason: "short"; required: bigint; available: bigint }
  | { ok: false; reason: "busy" };

/** Money promised to one open request, in nano-roubles. */
export interface Hold {
  readonly amount: bigint;
  /** Gives the promise back; the second call of the same hold is a bug. */
  release(): void;
}

export interface Holds {
  /**
   * Holds as much of the range as the account and the key's budget can pay now. `funds` were read in the
   * same turn of the event loop: that makes reading and holding one step.
   */
  take(
    owner: { accountId: number; keyId: number },
    range: AmountRange,
    funds: Funds,
  ): { ok: true; hold: Hold } | HoldRefusal;
  /** Resolves when a hold of the account is released, or after so long. */
  whenReleased(accountId: number, withinMs: number): Promise<void>;
  /** The sum of all open holds; 0 at rest. */
  total(): bigint;
}

/** The open holds of a serving gateway, in memory: one thread decides, so no two promises share a rouble. */
export function createHolds(): Holds {
  const byAccount = new Map<number, bigint>();
  const byKey = new Map<number, bigint>();
  /** Who waits for money of an account, longest first. */
  const waiting = new Map<number, Set<() => void>>();
  return {
    take({ accountId, keyId }, range, funds) {
      assert(0n <= range.least && range.least <= range.most, "a negative hold");
      const { least: required } = range;
      const spendable = funds.balance + funds.overdraft;
      const free = spendable - (byAccount.get(accountId) ?? 0n);
      const left = budgetLeft(funds, byKey.get(keyId) ?? 0n);
      const payable = left === undefined || free < left ? free : left;
      if (required > spendable || (left !== undefined && required > left)) {
        return { ok: false, reason: "short", required, available: positive(payable) };
      }
      if (required > free) return { ok: false, reason: "busy" };
      const amount = mostOf(range, payable);
      add(byAccount, accountId, amount);
      add(byKey, keyId, amount);
      let open = true;
      const release = (): void => {
        assert(open, "a hold is released twice");
        open = false;
        add(byAccount, accountId, -amount);
        add(byKey, keyId, -amount);
        for (const wake of waiting.get(accountId) ?? []) wake();
      };
      return { ok: true, hold: { amount, release } };
    },
    whenReleased(accountId, withinMs) {
      const waiters = waiting.get(accountId) ?? new Set<() => void>();
      waiting.set(accountId, waiters);
      return new Promise((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          waiters.delete(wake);
          if (waiters.size === 0) waiting.delete(accountId);
          resolve();
        };
        const timer = setTimeout(wake, withinMs);
        waiters.add(wake);
      });
    },
    total: () => byAccount.values().reduce((sum, held) => sum + held, 0n),
  };
}

/** What the key may still spend of its budget; undefined: it has none. */
function budgetLeft({ budget, spent }: Funds, held: bigint): bigint | undefined {
  return budget === null ? undefined : budget - spent - held;
}

/** The largest amount of the range that so much money pays; its least is known to fit. */
function mostOf({ most, least, step }: AmountRange, money: bigint): bigint {
  return most <= money ? most : least + ((money - least) / step) * step;
}

function add(sums: Map<number, bigint>, id: number, amount: bigint): void {
  const sum = (sums.get(id) ?? 0n) + amount;
  assert(sum >= 0n, "less than nothing is held");
  if (sum === 0n) sums.delete(id);
  else sums.set(id, sum);
}

function positive(amount: bigint): bigint {
  return amount > 0n ? amount : 0n;
}
