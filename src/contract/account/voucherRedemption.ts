import { Type, type Static } from "@sinclair/typebox";
import type { JsonFields } from "../../lib/json.ts";
import { formatRoubles } from "../../lib/money.ts";
import { Roubles } from "../answerFields.ts";
import { invalidRequest } from "../errors.ts";
import { bodyCheck } from "../requestFields.ts";
import { balanceForm } from "./account.ts";

/** The body of POST /v1/vouchers/redeem. */
export type VoucherRedemptionBody = Static<typeof VoucherRedemptionBody>;
export const VoucherRedemptionBody = Type.Object(
  {
    code: Type.String({
      minLength: 1,
      description:
        "The voucher's code. Case, hyphens and spaces do not matter. The letter O counts as 0, I and L as 1.",
      examples: ["7Q2MV-0X9TB-K4HJC-WD3RA-ZS81P-E6YNG"],
    }),
  },
  { additionalProperties: false },
);

/** The answer of POST /v1/vouchers/redeem. */
export type VoucherRedemption = Static<typeof VoucherRedemption>;
export const VoucherRedemption = Type.Object(
  {
    object: Type.Literal("voucher_redemption"),
    voucher: Type.String({ description: "The id of the voucher." }),
    applied: Type.Boolean({
      description: "False if this account had redeemed the voucher before. Then nothing changed.",
    }),
    amount_rub: Roubles,
    balance_rub: Roubles,
    held_rub: Roubles,
    available_rub: Roubles,
  },
  { description: "The amount of the voucher, and the money of the account now." },
);

const check = bodyCheck(VoucherRedemptionBody);

/** Throws ApiError 400. No message repeats what the client sent: it may be a code. */
export function checkVoucherRedemption(value: JsonFields): VoucherRedemptionBody {
  if (!Object.keys(value).every((name) => name === "code")) {
    throw invalidRequest("only the field code is accepted");
  }
  return check(value);
}

/** Amounts are nano-roubles. */
export function redemptionForm(
  redemption: { readonly voucher: string; readonly amount: bigint; readonly applied: boolean },
  account: { readonly balance: bigint; readonly reserved: bigint },
  available: bigint,
): VoucherRedemption {
  return {
    object: "voucher_redemption",
    voucher: redemption.voucher,
    applied: redemption.applied,
    amount_rub: formatRoubles(redemption.amount),
    ...balanceForm(account, available),
  };
}
