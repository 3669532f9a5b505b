import { Type, type Static } from "@sinclair/typebox";
import { isoTimeOrNull } from "../../lib/time.ts";
import { formatRoubles } from "../../lib/money.ts";
import { orNull, Roubles, time } from "../answerFields.ts";

/** The answer of GET /v1/account. */
export type Account = Static<typeof Account>;
export const Account = Type.Object(
  {
    account: Type.String({ description: "The account's name." }),
    balance_rub: Roubles,
    held_rub: Roubles,
    available_rub: Roubles,
    key: Type.Object(
      {
        id: Type.String(),
        label: orNull(Type.String()),
        prefix: Type.String({ description: "How the key itself begins." }),
        expires_at: orNull(time()),
        budget_rub: orNull(Roubles),
        spent_rub: Roubles,
        limits: Type.Object({
          requests_per_minute: limit("Requests in a minute"),
          tokens_per_minute: limit("Tokens in a minute"),
          concurrent_requests: limit("Requests at once"),
        }),
      },
      {
        description:
          "The key that asks. Its budget is for its lifetime; `spent_rub` is what was charged of it, less what was refunded, and more than the budget where a provider reported more than was held. Both are of the whole line of keys that it was rotated from and into.",
      },
    ),
  },
  {
    description: [
      "`held_rub` is the most that open requests can still cost.",
      "`available_rub` is what may still be spent: the balance without that, and the overdraft, if there is one.",
    ].join(" "),
  },
);

function limit(of: string) {
  return Type.Integer({ minimum: 0, description: `${of}; 0 is no limit.` });
}

/** A key as its owner and the operator see it; amounts are nano-roubles, times milliseconds since 1970. */
interface ShownKey {
  readonly publicId: string;
  readonly label: string | null;
  readonly prefix: string;
  readonly expiresAt: number | null;
  readonly budget: bigint | null;
  readonly spent: bigint;
}

/** What a key may do; 0 is no limit, null the config's. */
interface ShownLimits<Limit extends number | null> {
  readonly requestsPerMinute: Limit;
  readonly tokensPerMinute: Limit;
  readonly concurrentRequests: Limit;
}

/** What an account has, of which open requests hold a part; `available` is what it may still spend. Nano-roubles. */
export function balanceForm(account: { balance: bigint; held: bigint }, available: bigint) {
  return {
    balance_rub: formatRoubles(account.balance),
    held_rub: formatRoubles(account.held),
    available_rub: formatRoubles(available),
  };
}

/** A key without its secret, and the limits given for it. */
export function keyForm<Limit extends number | null>(key: ShownKey, limits: ShownLimits<Limit>) {
  return {
    id: key.publicId,
    label: key.label,
    prefix: key.prefix,
    expires_at: isoTimeOrNull(key.expiresAt),
    budget_rub: key.budget === null ? null : formatRoubles(key.budget),
    spent_rub: formatRoubles(key.spent),
    limits: {
      requests_per_minute: limits.requestsPerMinute,
      tokens_per_minute: limits.tokensPerMinute,
      concurrent_requests: limits.concurrentRequests,
    },
  };
}
