import type { Store } from "../../src/store/store.ts";
import { MoneyModel, type ModelKey } from "./moneyModel.ts";

/** A key of a history; `keyId` is its number in the store. */
export interface HistoryKey extends Pick<ModelKey, "account" | "budget"> {
  readonly name: string;
  readonly keyId: number;
}

const ROWS_MAX = 1000;

/** What the store says of these keys and their accounts, in the form of the model. */
export function booksAsModel(store: Store, historyKeys: readonly HistoryKey[]): MoneyModel {
  const { accounts, keys, ledger, requests } = store;
  const model = new MoneyModel();
  const names = new Map<string, string>();
  for (const { name, account, budget, keyId } of historyKeys) {
    model.addKey(name, account, budget);
    model.key(name).spent = keys.funds(keyId)?.spent ?? 0n;
    for (const { id, publicId } of keys.list(account)) if (id === keyId) names.set(publicId, name);
  }
  for (const [name, account] of model.accounts) {
    const row = accounts.find(name);
    if (!row) throw new Error(`account ${name} is gone`);
    Object.assign(account, { balance: row.balance, overdraft: row.overdraft });
    for (const { kind, amount } of ledger.history(row.id, ROWS_MAX).toReversed()) {
      if (kind === "refund") throw new Error("a refund that no history books");
      account.ledger.push({ kind, amount });
    }
    for (const one of requests.list({ account: name, limit: ROWS_MAX })) {
      const { hold, status, charge, writeOff } = one;
      const key = names.get(one.key) ?? one.key;
      model.requests.set(one.id, { key, hold, status, charge, writeOff });
    }
  }
  return model;
}

/** All that a model says of its accounts, keys and requests. */
export function snapshotOf(model: MoneyModel): string {
  const requests = [...model.requests].sort(([one], [other]) => (one < other ? -1 : 1));
  const rows = [[...model.accounts], [...model.keys], requests];
  return JSON.stringify(rows, (_, value: unknown) =>
    typeof value === "bigint" ? value.toString() : value,
  );
}
