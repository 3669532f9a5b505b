import { Type, type Static } from "@sinclair/typebox";
import { isoTime } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import { balanceForm } from "../account/account.ts";
import { Roubles, time } from "../answerFields.ts";

// The documents of this folder are what commands print with `--json` and what the console's API answers. Pages in
// browsers import their types, so these files use pure code only.

/** An account, as the operator sees it. */
export type AccountDocument = Static<typeof AccountDocument>;
export const AccountDocument = Type.Object({
  name: Type.String(),
  balance_rub: Roubles,
  held_rub: Roubles,
  available_rub: Roubles,
  overdraft_rub: Roubles,
  disabled: Type.Boolean(),
  created_at: time(),
  /** Null: the value of the config. */
  low_rub: Type.Union([Roubles, Type.Null()]),
  notify: Type.Union([Type.String(), Type.Null()]),
  /** Null: the prices of the models. */
  plan: Type.Union([Type.String(), Type.Null()]),
});

/** Amounts are nano-roubles. */
interface ShownAccount {
  readonly name: string;
  readonly balance: bigint;
  readonly reserved: bigint;
  readonly overdraft: bigint;
  readonly disabled: boolean;
  readonly createdAt: number;
  readonly low: bigint | null;
  readonly notifyUrl: string | null;
  readonly plan: string | null;
}

/** `available` is nano-roubles. */
export function accountDocument(account: ShownAccount, available: bigint): AccountDocument {
  return {
    name: account.name,
    ...balanceForm(account, available),
    overdraft_rub: formatRoubles(account.overdraft),
    disabled: account.disabled,
    created_at: isoTime(account.createdAt),
    low_rub: account.low === null ? null : formatRoubles(account.low),
    notify: account.notifyUrl,
    plan: account.plan,
  };
}
