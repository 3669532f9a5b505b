import { Type, type Static } from "@sinclair/typebox";

/** What `tollgate migrate --json` prints. `balance_rub`: the sum of all balances, which is the same on both sides. */
export type CopiedDatabaseDocument = Static<typeof CopiedDatabaseDocument>;
export const CopiedDatabaseDocument = Type.Object({
  ok: Type.Literal(true),
  from: Type.String(),
  to: Type.String(),
  accounts: Type.Integer({ minimum: 0 }),
  keys: Type.Integer({ minimum: 0 }),
  ledger_rows: Type.Integer({ minimum: 0 }),
  requests: Type.Integer({ minimum: 0 }),
  /** Requests that a crash had left open. They are recorded as interrupted, and nothing is charged. */
  interrupted: Type.Integer({ minimum: 0 }),
  balance_rub: Type.String(),
});
