import { accountDocument, type AccountDocument } from "../contract/operator/account.ts";
import { accountUrlProblem } from "../notices/recipients.ts";
import { available, type AccountChanges, type AccountRow } from "../store/store.ts";
import type { Operator } from "./operator.ts";
import { InvalidValue } from "./values.ts";
import { withReservedMoney, type OnWait } from "./reservedMoney.ts";

// Each change throws StoreError if the store refuses it. Amounts are nano-roubles.

/** An account in both forms. */
export interface ShownAccount {
  readonly account: AccountRow;
  readonly document: AccountDocument;
}

export function shownAccount(account: AccountRow): ShownAccount {
  return { account, document: accountDocument(account, available(account)) };
}

export async function createAccount(
  { store, actor }: Operator,
  name: string,
  overdraft: bigint,
): Promise<ShownAccount> {
  return shownAccount(await store.admin.createAccount(actor, name, overdraft));
}

/** Waits for money that the serving gateway has reserved. Throws InvalidValue for an address that notices cannot go to. */
export async function setAccount(
  operator: Operator,
  name: string,
  changes: AccountChanges,
  onWait?: OnWait,
): Promise<ShownAccount> {
  const { notifyUrl } = changes;
  const problem =
    typeof notifyUrl === "string"
      ? accountUrlProblem(operator.config.notify, notifyUrl)
      : undefined;
  if (problem !== undefined) throw new InvalidValue(`notify ${problem}`, { field: "notify" });
  const { admin } = operator.store;
  const change = () => admin.setAccount(operator.actor, name, changes);
  return shownAccount(await withReservedMoney(admin, name, change, onWait));
}

export async function setDisabled(
  { store, actor }: Operator,
  name: string,
  disabled: boolean,
): Promise<ShownAccount> {
  return shownAccount(await store.admin.setDisabled(actor, name, disabled));
}
