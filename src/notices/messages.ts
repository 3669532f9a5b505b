import { isoTime } from "../lib/clock.ts";
import { formatRoubles } from "../lib/money.ts";
import type { ExpiringKey, LowAccount } from "../store/store.ts";
import type { Notice } from "./notice.ts";

// The texts of all notices. The operator and the holder of an account read the same text. None contains a label, a secret
// or anything of a prompt.

export function lowAccountNotice(
  { name, left, below, daysLeft }: LowAccount,
  atMs: number,
): Notice {
  const threshold =
    below === undefined ? "" : `, less than its threshold of ${formatRoubles(below)}`;
  const days = daysLeft === undefined ? undefined : Math.floor(daysLeft * 10) / 10;
  const pace = days === undefined ? "" : ` At its pace that lasts for ${days} days.`;
  return {
    type: "account_low",
    subject: name,
    atMs,
    text: `Account ${name} has ${formatRoubles(left)} roubles left${threshold}.${pace} Add money before requests are refused.`,
    data: {
      account: name,
      left_rub: formatRoubles(left),
      low_rub: below === undefined ? null : formatRoubles(below),
      days_left: days ?? null,
    },
  };
}

const NAMED_MAX = 20;

/** One notice for the operator about accounts that are low at once. */
export function lowAccountsNotice(accounts: readonly LowAccount[], atMs: number): Notice {
  const names = accounts.slice(0, NAMED_MAX).map(({ name }) => name);
  const more = accounts.length > NAMED_MAX ? " and others" : "";
  return {
    type: "account_low",
    subject: undefined,
    atMs,
    text: `${accounts.length} accounts are low: ${names.join(", ")}${more}. \`tollgate accounts list\` shows their balances.`,
    data: { accounts: accounts.length },
  };
}

export function expiringKeyNotice({ key, account, expiresAt }: ExpiringKey, atMs: number): Notice {
  const at = isoTime(expiresAt);
  return {
    type: "key_expires",
    subject: key,
    atMs,
    text: `Key ${key} of account ${account} expires at ${at}. Requests with it are refused from then on. \`tollgate keys rotate ${key}\` gives a new key.`,
    data: { account, key, expires_at: at },
  };
}

export function refusedProviderNotice(provider: string, atMs: number): Notice {
  return {
    type: "provider_refused",
    subject: provider,
    atMs,
    text: `Provider ${provider} refuses its API key, the account or the country. The gateway does not use it for now. \`tollgate check --live\` shows why. Repair it, then reload the gateway.`,
    data: { provider },
  };
}

/** Why no charge can be written. */
const BLOCKED = {
  full: "its disk is full",
  busy: "another process keeps it locked",
  unreachable: "its server cannot be reached",
} as const;

export type BlockedBy = keyof typeof BLOCKED;

export function blockedStoreNotice(reason: BlockedBy, atMs: number): Notice {
  return {
    type: "store_blocked",
    subject: undefined,
    atMs,
    text: `The database cannot be written: ${BLOCKED[reason]}. The gateway refuses requests until it can. \`tollgate doctor\` says what to do.`,
    data: { reason },
  };
}

export function failedAuditNotice(atMs: number): Notice {
  return {
    type: "audit_failed",
    subject: undefined,
    atMs,
    text: "The last audit or backup found that the records of the database do not agree. `tollgate audit` shows the problems. Keep the last good backup.",
    data: {},
  };
}
