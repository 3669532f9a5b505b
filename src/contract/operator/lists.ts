import { Type, type Static } from "@sinclair/typebox";
import { orNull, Roubles, time } from "../answerFields.ts";
import { oneOf } from "../requestFields.ts";
import { AccountDocument } from "./account.ts";
import { KeyDocument, keyStates } from "./key.ts";
import { LedgerDocument } from "./ledger.ts";
import { RequestDocument } from "./request.ts";
import { VoucherDocument } from "./voucher.ts";

// The console's lists. `total` counts all rows that match. `next` is the cursor for `before`, null at the end.

const count = Type.Integer({ minimum: 0 });
const next = orNull(Type.String());

/** The last 30 days with today, in UTC. */
const recent = { requests_30d: count, charged_30d_rub: Roubles };

/** The answer of GET /api/accounts, by name. */
export type AccountList = Static<typeof AccountList>;
export const AccountList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(Type.Object({ ...AccountDocument.properties, keys: count, ...recent })),
  total: count,
  next,
});

/** A key in a list. `is_replaced`: a rotation made a newer key. */
export const ListedKey = Type.Object({
  ...KeyDocument.properties,
  state: oneOf(keyStates),
  is_replaced: Type.Boolean(),
  ...recent,
});

/** The answer of GET /api/keys, the newest first. */
export type KeyList = Static<typeof KeyList>;
export const KeyList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(ListedKey),
  total: count,
  next,
});

/** The answer of GET /api/accounts/NAME/ledger, newest first. */
export type LedgerPage = Static<typeof LedgerPage>;
export const LedgerPage = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(LedgerDocument),
  next,
});

/**
 * The answer of GET /api/requests, the one recorded last first. One answer looks at a limited number of requests. If it
 * ends there, `searched_to` is the time of the last one, `data` can be short or empty, and `next` goes on.
 */
export type RequestList = Static<typeof RequestList>;
export const RequestList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(RequestDocument),
  next,
  searched_to: orNull(time()),
});

/** The answer of GET /api/vouchers, the newest first. */
export type VoucherList = Static<typeof VoucherList>;
export const VoucherList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(VoucherDocument),
  total: count,
  next,
});
