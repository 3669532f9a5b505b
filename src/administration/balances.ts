import {
  changedBalanceDocument,
  refundDocument,
  type ChangedBalanceDocument,
  type RefundDocument,
} from "../contract/operator/ledger.ts";
import type { Operator } from "./operator.ts";
import { withReservedMoney, type OnWait } from "./reservedMoney.ts";

// Each change throws StoreError if the store refuses it. Amounts are positive nano-roubles. A repeat with the same `ref`
// changes nothing.

interface Entry {
  readonly ref?: string | undefined;
  readonly note?: string | undefined;
}

/** A debit waits for money that the serving gateway has reserved. */
export async function changeBalance(
  operator: Operator,
  entry: Entry & {
    readonly account: string;
    readonly kind: "credit" | "debit";
    readonly amount: bigint;
  },
  onWait?: OnWait,
): Promise<ChangedBalanceDocument> {
  const { admin } = operator.store;
  const ledgerChange = { ...entry, ref: entry.ref ?? null, note: entry.note ?? null };
  const change = () => admin.changeBalance(operator.actor, ledgerChange);
  const changed = await withReservedMoney(admin, entry.account, change, onWait);
  return changedBalanceDocument({ ...ledgerChange, ...changed });
}

/** Without an amount it refunds what is left of the charge. */
export async function refund(
  { store, actor }: Operator,
  entry: Entry & { readonly request: string; readonly amount?: bigint | undefined },
): Promise<RefundDocument> {
  const { request, amount = null, ref = null, note = null } = entry;
  const refunded = await store.admin.refund(actor, { request, amount, ref, note });
  return refundDocument(request, { ...refunded, ref });
}
