import { Type, type Static, type TProperties } from "@sinclair/typebox";

// The bodies of the console's changes. Each value is the text that the argument or the option of the command takes.

const text = Type.String();
const optional = Type.Optional(text);

function body<Fields extends TProperties>(fields: Fields) {
  return Type.Object(fields, { additionalProperties: false });
}

/** POST /api/accounts. */
export type NewAccount = Static<typeof NewAccount>;
export const NewAccount = body({ name: text, overdraft: optional });

/** POST /api/accounts/NAME/overdraft. */
export type NewOverdraft = Static<typeof NewOverdraft>;
export const NewOverdraft = body({ overdraft: text });

/** POST /api/accounts/NAME/credit and debit. */
export type NewEntry = Static<typeof NewEntry>;
export const NewEntry = body({ amount: text, ref: optional, note: optional });

/** POST /api/requests/ID/refund. Without an amount: what is left of the charge. */
export type NewRefund = Static<typeof NewRefund>;
export const NewRefund = body({ amount: optional, ref: optional, note: optional });

/** POST /api/keys/ID/settings. `none` removes a setting. */
export type NewSettings = Static<typeof NewSettings>;
export const NewSettings = body({
  label: optional,
  expires: optional,
  rpm: optional,
  tpm: optional,
  concurrent: optional,
  models: optional,
  budget: optional,
});

/** POST /api/keys. A new account is created. */
export type NewKey = Static<typeof NewKey>;
export const NewKey = body({ account: text, ...NewSettings.properties });

/** POST /api/keys/ID/rotate. */
export type NewRotation = Static<typeof NewRotation>;
export const NewRotation = body({ grace: optional });

/** POST /api/vouchers. */
export type NewVouchers = Static<typeof NewVouchers>;
export const NewVouchers = body({
  amount: text,
  count: optional,
  expires: optional,
  note: optional,
});

/** The body of a change without values: none, or an empty object. */
export const NoValues = body({});
