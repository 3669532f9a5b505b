import { Type, type Static } from "@sinclair/typebox";
import { isoTime } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import { orNull, Roubles, time } from "../answerFields.ts";
import { oneOf } from "../requestFields.ts";

const entryKinds = ["credit", "debit", "charge", "refund"] as const;

/** An entry of an account's ledger. `amount_rub` is negative for a debit and a charge. */
export type LedgerDocument = Static<typeof LedgerDocument>;
export const LedgerDocument = Type.Object({
  id: Type.Integer({ description: "The number of the entry in the ledger of its account." }),
  at: time(),
  kind: oneOf(entryKinds),
  amount_rub: Roubles,
  balance_rub: Roubles,
  ref: orNull(Type.String()),
  note: orNull(Type.String()),
  request_id: orNull(Type.String({ description: "The request that was charged or refunded." })),
});

const changedBalance = {
  account: Type.String(),
  amount_rub: Roubles,
  balance_rub: Roubles,
  ref: orNull(Type.String()),
  applied: Type.Boolean({
    description: "False if the same change was made before with this ref. Nothing changed.",
  }),
};

/** The answer to a credit or a debit. `amount_rub` is positive for both. */
export type ChangedBalanceDocument = Static<typeof ChangedBalanceDocument>;
export const ChangedBalanceDocument = Type.Object(changedBalance);

export type RefundDocument = Static<typeof RefundDocument>;
export const RefundDocument = Type.Object({ request: Type.String(), ...changedBalance });

/** `requestId`: the request that the entry charges or refunds. Amounts are nano-roubles. */
interface ShownEntry {
  readonly seq: number;
  readonly at: number;
  readonly kind: (typeof entryKinds)[number];
  readonly amount: bigint;
  readonly balanceAfter: bigint;
  readonly ref: string | null;
  readonly note: string | null;
  readonly requestId: string | null;
}

/** `account` is the account after the change. Amounts are nano-roubles. */
interface ShownChange {
  readonly account: { readonly name: string; readonly balance: bigint };
  readonly amount: bigint;
  readonly ref: string | null;
  readonly applied: boolean;
}

export function ledgerDocument(entry: ShownEntry): LedgerDocument {
  return {
    id: entry.seq,
    at: isoTime(entry.at),
    kind: entry.kind,
    amount_rub: formatRoubles(entry.amount),
    balance_rub: formatRoubles(entry.balanceAfter),
    ref: entry.ref,
    note: entry.note,
    request_id: entry.requestId,
  };
}

export function changedBalanceDocument(change: ShownChange): ChangedBalanceDocument {
  return {
    account: change.account.name,
    amount_rub: formatRoubles(change.amount),
    balance_rub: formatRoubles(change.account.balance),
    ref: change.ref,
    applied: change.applied,
  };
}

export function refundDocument(request: string, change: ShownChange): RefundDocument {
  return { request, ...changedBalanceDocument(change) };
}
