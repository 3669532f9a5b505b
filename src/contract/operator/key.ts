import { Type, type Static } from "@sinclair/typebox";
import { isoTime, isoTimeOrNull } from "../../lib/clock.ts";
import { keyForm, type ShownKey, type ShownLimits } from "../account/account.ts";
import { orNull, Roubles, time } from "../answerFields.ts";

const limit = orNull(Type.Integer({ minimum: 0 }));

/**
 * A key without its secret. A limit of null is the limit of the config; 0 is no limit. `models`: null is all models. An
 * empty list is damaged and allows none. `budget_rub` and `spent_rub` belong to the whole rotation chain.
 */
export type KeyDocument = Static<typeof KeyDocument>;
export const KeyDocument = Type.Object({
  id: Type.String(),
  label: orNull(Type.String()),
  prefix: Type.String(),
  expires_at: orNull(time()),
  budget_rub: orNull(Roubles),
  spent_rub: Roubles,
  limits: Type.Object({
    requests_per_minute: limit,
    tokens_per_minute: limit,
    concurrent_requests: limit,
  }),
  account: Type.String(),
  created_at: time(),
  revoked_at: orNull(time()),
  last_used_at: orNull(time()),
  first_address: orNull(Type.String()),
  last_address: orNull(Type.String()),
  models: orNull(Type.Array(Type.String())),
});

/** A new key with its secret `key`. No other document contains the secret. */
export type CreatedKeyDocument = Static<typeof CreatedKeyDocument>;
export const CreatedKeyDocument = Type.Object({
  ...KeyDocument.properties,
  key: Type.String({ description: "The secret. It is shown once and never stored." }),
  created_account: Type.Boolean(),
});

/** The new key of a rotation. `replaces` is the id of the old key. */
export type RotatedKeyDocument = Static<typeof RotatedKeyDocument>;
export const RotatedKeyDocument = Type.Object({
  ...CreatedKeyDocument.properties,
  replaces: Type.String(),
});

/** `applied` is false if the key was revoked before. */
export type RevokedKeyDocument = Static<typeof RevokedKeyDocument>;
export const RevokedKeyDocument = Type.Object({
  ...KeyDocument.properties,
  applied: Type.Boolean(),
});

/** Amounts are nano-roubles. Times are milliseconds since 1970. */
interface ShownOperatorKey extends ShownKey, ShownLimits<number | null> {
  readonly account: string;
  readonly createdAt: number;
  readonly revokedAt: number | null;
  readonly lastUsedAt: number | null;
  readonly firstAddress: string | null;
  readonly lastAddress: string | null;
  readonly models: readonly string[] | null;
}

export function keyDocument(key: ShownOperatorKey): KeyDocument {
  return {
    ...keyForm(key, key),
    account: key.account,
    created_at: isoTime(key.createdAt),
    revoked_at: isoTimeOrNull(key.revokedAt),
    last_used_at: isoTimeOrNull(key.lastUsedAt),
    first_address: key.firstAddress,
    last_address: key.lastAddress,
    models: key.models && [...key.models],
  };
}

export function createdKeyDocument(
  key: ShownOperatorKey,
  secret: string,
  createdAccount: boolean,
): CreatedKeyDocument {
  return { ...keyDocument(key), key: secret, created_account: createdAccount };
}

export function rotatedKeyDocument(
  key: ShownOperatorKey,
  secret: string,
  replaces: string,
): RotatedKeyDocument {
  return { ...createdKeyDocument(key, secret, false), replaces };
}

export function revokedKeyDocument(key: ShownOperatorKey, applied: boolean): RevokedKeyDocument {
  return { ...keyDocument(key), applied };
}

export const keyStates = ["active", "expired", "revoked", "damaged", "account disabled"] as const;

/** The state of a key at `nowMs`: whether it works, and if not, why. */
export function keyState(
  key: Pick<ShownOperatorKey, "revokedAt" | "models" | "expiresAt"> & {
    readonly accountDisabled: boolean;
  },
  nowMs: number,
): (typeof keyStates)[number] {
  if (key.revokedAt !== null) return "revoked";
  if (key.models?.length === 0) return "damaged";
  if (key.expiresAt !== null && key.expiresAt <= nowMs) return "expired";
  return key.accountDisabled ? "account disabled" : "active";
}
