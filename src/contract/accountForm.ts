import { isoTimeOrNull } from "../lib/time.ts";
import { formatRoubles } from "../lib/money.ts";

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
interface ShownLimits {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
  readonly concurrentRequests: number | null;
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
export function keyForm(key: ShownKey, limits: ShownLimits) {
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
