import { Type, type Static } from "@sinclair/typebox";
import { isoTime, isoTimeOrNull } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import { orNull, Roubles, time } from "../answerFields.ts";
import { oneOf } from "../requestFields.ts";

const states = ["open", "redeemed", "revoked", "expired"] as const;
type VoucherState = (typeof states)[number];

/** A voucher as the operator sees it. */
export type VoucherDocument = Static<typeof VoucherDocument>;
export const VoucherDocument = Type.Object({
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
export type CreatedVoucherDocument = Static<typeof CreatedVoucherDocument>;
export const CreatedVoucherDocument = Type.Object({
  ...VoucherDocument.properties,
  code: Type.String(),
});

/** A revoked voucher. `applied` is false if it was revoked before. */
export type RevokedVoucherDocument = Static<typeof RevokedVoucherDocument>;
export const RevokedVoucherDocument = Type.Object({
  ...VoucherDocument.properties,
  applied: Type.Boolean(),
});

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
export function voucherDocument(voucher: ShownVoucher, nowMs: number): VoucherDocument {
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

/** A new voucher with its code, in groups. */
export function createdVoucherDocument(
  voucher: ShownVoucher,
  code: string,
  nowMs: number,
): CreatedVoucherDocument {
  return { ...voucherDocument(voucher, nowMs), code };
}

export function revokedVoucherDocument(
  voucher: ShownVoucher,
  applied: boolean,
  nowMs: number,
): RevokedVoucherDocument {
  return { ...voucherDocument(voucher, nowMs), applied };
}

function stateAt(voucher: ShownVoucher, nowMs: number): VoucherState {
  if (voucher.redeemedAt !== null) return "redeemed";
  if (voucher.revokedAt !== null) return "revoked";
  return voucher.expiresAt !== null && voucher.expiresAt <= nowMs ? "expired" : "open";
}
