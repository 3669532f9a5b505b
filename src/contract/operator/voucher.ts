import { Type, type Static } from "@sinclair/typebox";
import { isoTime, isoTimeOrNull } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import { orNull, Roubles, time } from "../answerFields.ts";
import { oneOf } from "../requestFields.ts";

const states = ["open", "redeemed", "revoked", "expired"] as const;
type VoucherState = (typeof states)[number];

/** A voucher as the operator sees it. */
export type Voucher = Static<typeof Voucher>;
export const Voucher = Type.Object({
  id: Type.String(),
  prefix: Type.String({ description: "The first characters of the code." }),
  amount_rub: Roubles,
  note: orNull(Type.String()),
  state: oneOf(states),
  created_at: time(),
  expires_at: orNull(time()),
  revoked_at: orNull(time()),
  redeemed_at: orNull(time()),
  redeemed_by: orNull(Type.String({ description: "The name of the account." })),
});

/** A new voucher. No other document contains its code. */
export type CreatedVoucher = Static<typeof CreatedVoucher>;
export const CreatedVoucher = Type.Object({ ...Voucher.properties, code: Type.String() });

/** A revoked voucher. `applied` is false if it was revoked before. */
export type RevokedVoucher = Static<typeof RevokedVoucher>;
export const RevokedVoucher = Type.Object({ ...Voucher.properties, applied: Type.Boolean() });

/** `amount` is nano-roubles. Times are milliseconds since 1970. `redeemedBy` is an account's name. */
interface ShownVoucher {
  readonly publicId: string;
  readonly prefix: string;
  readonly amount: bigint;
  readonly note: string | null;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  readonly redeemedAt: number | null;
  readonly redeemedBy: string | null;
}

/** A voucher with its state at `nowMs`. */
export function voucherForm(voucher: ShownVoucher, nowMs: number): Voucher {
  return {
    id: voucher.publicId,
    prefix: voucher.prefix,
    amount_rub: formatRoubles(voucher.amount),
    note: voucher.note,
    state: stateAt(voucher, nowMs),
    created_at: isoTime(voucher.createdAt),
    expires_at: isoTimeOrNull(voucher.expiresAt),
    revoked_at: isoTimeOrNull(voucher.revokedAt),
    redeemed_at: isoTimeOrNull(voucher.redeemedAt),
    redeemed_by: voucher.redeemedBy,
  };
}

function stateAt(voucher: ShownVoucher, nowMs: number): VoucherState {
  if (voucher.redeemedAt !== null) return "redeemed";
  if (voucher.revokedAt !== null) return "revoked";
  return voucher.expiresAt !== null && voucher.expiresAt <= nowMs ? "expired" : "open";
}
