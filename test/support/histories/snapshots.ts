import type { KeyRow, Store } from "../../../src/store/store.ts";
import { MoneyModel, type ModelKey } from "./moneyModel.ts";

/** A key of a history, with its rotation chain; `keyId` is the row id of the first key. */
export interface HistoryKey extends Pick<ModelKey, "account"> {
  readonly name: string;
  readonly keyId: number;
}

const ROWS_MAX = 1000;

/** The store's state of these keys and their accounts, in the form of the model. */
export async function snapshotOfStore(
  store: Pick<Store, "accounts" | "keys" | "ledger" | "requests">,
  historyKeys: readonly HistoryKey[],
): Promise<MoneyModel> {
  const { accounts, keys, ledger, requests } = store;
  const model = new MoneyModel();
  const names = new Map<string, string>();
  for (const { name, account, keyId } of historyKeys) {
    const line = (await keys.list(account)).filter(({ firstKeyId }) => firstKeyId === keyId);
    for (const { publicId } of line) names.set(publicId, name);
    const { budget, spent } = moneyOfChain(line);
    model.addKey(name, account, budget);
    model.key(name).spent = spent;
  }
  for (const [name, account] of model.accounts) {
    const row = await accounts.find(name);
    if (!row) throw new Error(`account ${name} is gone`);
    Object.assign(account, { balance: row.balance, overdraft: row.overdraft });
    for (const { kind, amount } of (await ledger.history(row.id, ROWS_MAX)).toReversed()) {
      if (kind === "refund") throw new Error("a refund that no history made");
      account.ledger.push({ kind, amount });
    }
    for (const one of (await requests.list({ account: name }, { limit: ROWS_MAX })).rows) {
      const { hold, status, charge, writeOff } = one;
      const key = names.get(one.key) ?? one.key;
      model.requests.set(one.id, { key, hold, status, charge, writeOff });
    }
  }
  return model;
}

/** The shared budget and spending of a rotation chain, whichever key is read. */
function moneyOfChain(line: readonly KeyRow[]): Pick<KeyRow, "budget" | "spent"> {
  const [first] = line;
  if (!first) throw new Error("a key is gone");
  for (const money of line)
    if (money.budget !== first.budget || money.spent !== first.spent)
      throw new Error("the keys of a line differ in what they may spend, or have");
  return first;
}

/** The model's accounts, keys and requests as text. */
export function snapshotOfModel(model: MoneyModel): string {
  const requests = [...model.requests].sort(([one], [other]) => (one < other ? -1 : 1));
  const rows = [[...model.accounts], [...model.keys], requests];
  return JSON.stringify(rows, (_, value: unknown) =>
    typeof value === "bigint" ? value.toString() : value,
  );
}
