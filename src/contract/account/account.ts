import { Type, type Static } from "@sinclair/typebox";
import { isoTimeOrNull } from "../../lib/clock.ts";
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
        prefix: Type.String({ description: "The first characters of the key." }),
        expires_at: orNull(time()),
        budget_rub: orNull(Roubles),
        spent_rub: Roubles,
        limits: Type.Object({
          requests_per_minute: limit("Requests per minute"),
          tokens_per_minute: limit("Tokens per minute"),
          concurrent_requests: limit("Concurrent requests"),
        }),
        limits_remaining: Type.Object(
          {
            requests: remaining("Requests"),
            tokens: remaining("Tokens"),
            concurrent_requests: remaining("Concurrent requests"),
          },
          {
            description:
              "What the key can use now, after this request. A rate refills evenly over the minute. This request uses one of `requests`. It does not count in `concurrent_requests`, because it ends with this answer.",
          },
        ),
      },
      {
        description:
          "The key of this request. `budget_rub` is for its lifetime. `spent_rub` is the sum of charges minus refunds. It exceeds the budget if a provider reported more tokens than were held. Keys that replaced each other by rotation share both values.",
      },
    ),
    contact_url: orNull(
      Type.String({
        description: "Where to ask for more: an https, http or mailto URL of the operator.",
        examples: ["https://example.com/buy"],
      }),
    ),
  },
  {
    description: [
      "`held_rub` is reserved for open requests: at least the most that they can still cost.",
      "`available_rub` is the balance minus `held_rub` plus the overdraft.",
    ].join(" "),
  },
);

function limit(what: string) {
  return Type.Integer({ minimum: 0, description: `${what}. 0 means no limit.` });
}

function remaining(what: string) {
  return orNull(
    Type.Integer({ minimum: 0, description: `${what} that remain. Null means no limit.` }),
  );
}

/** Amounts are nano-roubles. Times are milliseconds since 1970. */
export interface ShownKey {
  readonly publicId: string;
  readonly label: string | null;
  readonly prefix: string;
  readonly expiresAt: number | null;
  readonly budget: bigint | null;
  readonly spent: bigint;
}

/** The limits of a key. 0 means no limit; null means the config's limit. */
export interface ShownLimits<Limit extends number | null> {
  readonly requestsPerMinute: Limit;
  readonly tokensPerMinute: Limit;
  readonly concurrentRequests: Limit;
}

/** What is left of a key's limits; undefined without a limit. */
interface ShownRemainder {
  readonly requests: number | undefined;
  readonly tokens: number | undefined;
  readonly concurrentRequests: number | undefined;
}

export function remainingForm(remainder: ShownRemainder) {
  return {
    requests: remainder.requests ?? null,
    tokens: remainder.tokens ?? null,
    concurrent_requests: remainder.concurrentRequests ?? null,
  };
}

/** The money of an account. The arguments are nano-roubles. */
export function balanceForm(account: { balance: bigint; reserved: bigint }, available: bigint) {
  return {
    balance_rub: formatRoubles(account.balance),
    held_rub: formatRoubles(account.reserved),
    available_rub: formatRoubles(available),
  };
}

/** A key and its limits, without its secret. */
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
