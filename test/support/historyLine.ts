import type { HistoryKey } from "./booksAsModel.ts";
import type { MoneyModel } from "./moneyModel.ts";
import type { TestApp, TestKey } from "./testApp.ts";

/** Longer than any history. */
const GRACE_MS = 3_600_000;
const KEYS_MAX = 4;
/** Small enough that it often is what a request lacks. */
const BUDGET_MAX = 1024;

/** A key of a history and those that rotations put in its place; to the model they are one. */
export interface HistoryLine extends HistoryKey {
  /** One of its keys, all of which work. */
  anyOf(word: number): TestKey;
  /** Rotates it, or sets its budget on one of its keys; returns what happened. */
  change(word: number): string;
}

/** Makes the first key of one, in the gateway and in the model. */
export function historyLine(
  gateway: TestApp,
  model: MoneyModel,
  made: { name: string; account: string; budget: bigint | null },
): HistoryLine {
  const { name, account, budget } = made;
  model.addKey(name, account, budget);
  const first = gateway.key({ account, balance: 0n, ...(budget === null ? {} : { budget }) });
  const keys: TestKey[] = [first];
  const { store } = gateway;
  const anyOf = (word: number): TestKey => keys[word % keys.length] ?? first;
  return {
    name,
    account,
    keyId: store.keys.find(first.id)?.id ?? 0,
    anyOf,
    change(word) {
      if (word % 2 === 0 && keys.length < KEYS_MAX) {
        keys.push(gateway.rotate(keys.at(-1) ?? first, GRACE_MS));
        return `${name} is rotated`;
      }
      const budget = word % 8 === 1 ? null : BigInt((word >>> 3) % BUDGET_MAX);
      store.admin.changeKey({ name: "tester", at: 0 }, anyOf(word >>> 15).id, { budget });
      model.key(name).budget = budget;
      return `the budget of ${name} is ${budget}`;
    },
  };
}
