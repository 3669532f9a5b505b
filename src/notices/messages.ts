import { isoTime } from "../lib/clock.ts";
import { formatRoubles } from "../lib/money.ts";
import type { ExpiringKey, LowAccount } from "../store/store.ts";
import type { RouteServices } from "../telemetry/metrics.ts";
import type { Notice, NoticeType } from "./notice.ts";

// The texts of all notices. None contains a label, a secret or anything of a prompt.

function notice(
  type: NoticeType,
  subject: string | undefined,
  atMs: number,
  text: string,
  data: Notice["data"] = {},
): Notice {
  return { type, subject, atMs, text, data };
}

/** Who reads a notice: the operator, or the holder of the account, who cannot run commands. */
export type Audience = "operator" | "holder";

export function lowAccountNotice(
  { name, left, below, daysLeft }: LowAccount,
  atMs: number,
): Notice {
  const threshold =
    below === undefined ? "" : `, less than its threshold of ${formatRoubles(below)}`;
  const days = daysLeft === undefined ? undefined : Math.floor(daysLeft * 10) / 10;
  const pace = days === undefined || left <= 0n ? "" : ` ${paceText(days)}`;
  const advice =
    left <= 0n
      ? "Its requests are refused until money is added."
      : "Add money before its requests are refused.";
  const text = `Account ${name} has ${formatRoubles(left)} roubles left${threshold}.${pace} ${advice}`;
  return notice("account_low", name, atMs, text, {
    account: name,
    left_rub: formatRoubles(left),
    low_rub: below === undefined ? null : formatRoubles(below),
    days_left: days ?? null,
  });
}

function paceText(days: number): string {
  return days < 1
    ? "At its pace that lasts for less than a day."
    : `At its pace that lasts for ${days} ${days === 1 ? "day" : "days"}.`;
}

export function expiringKeyNotice(
  { key, account, expiresAt }: ExpiringKey,
  audience: Audience,
  atMs: number,
): Notice {
  const at = isoTime(expiresAt);
  const advice =
    audience === "operator"
      ? `\`tollgate keys rotate ${key}\` gives a new key.`
      : "Ask for a new key before.";
  const text = `Key ${key} of account ${account} expires at ${at}. Requests with it are refused from then on. ${advice}`;
  return notice("key_expires", key, atMs, text, { account, key, expires_at: at });
}

const NAMED_MAX = 20;

/** One notice for the operator about many that begin at once. */
export function digestNotice(
  type: "account_low" | "key_expires",
  subjects: readonly string[],
  atMs: number,
): Notice {
  const names = subjects.slice(0, NAMED_MAX).join(", ");
  const more = subjects.length > NAMED_MAX ? " and others" : "";
  const count = subjects.length;
  const isAccounts = type === "account_low";
  const what = isAccounts ? `${count} accounts are low` : `${count} keys expire soon`;
  const text = `${what}: ${names}${more}. \`tollgate console\` shows what is most urgent.`;
  return notice(type, undefined, atMs, text, isAccounts ? { accounts: count } : { keys: count });
}

export function refusedProviderNotice(provider: string, atMs: number): Notice {
  return notice(
    "provider_refused",
    provider,
    atMs,
    `Provider ${provider} refuses its API key, the account or the country. The gateway does not use it for now. \`tollgate check --live\` shows why. Repair it, then reload the gateway.`,
    { provider },
  );
}

export function refusedOrganizationNotice(provider: string, atMs: number): Notice {
  return notice(
    "organization_refused",
    provider,
    atMs,
    `Provider ${provider} refuses requests because your organization there is not verified or is restricted. Other routes are used for them. \`tollgate check --live\` shows what it says. Log in at the provider and repair it.`,
    { provider },
  );
}

export function missingKeyNotice(provider: string, atMs: number): Notice {
  return notice(
    "provider_without_key",
    provider,
    atMs,
    `Provider ${provider} has no valid key, because its command or its token server gives none. The gateway does not use it for now, and tries again each minute. \`tollgate check --live\` shows why.`,
    { provider },
  );
}

const EXPENSIVE_ADVICE =
  "Clients pay the tokens at the usual price. Turn the service off in your project at the provider, or set a price that covers it.";

export function expensiveRouteNotice(
  { provider, model, services }: RouteServices,
  atMs: number,
): Notice {
  return notice(
    "service_expensive",
    `${provider}/${model}`,
    atMs,
    `Provider ${provider} serves ${model} with something that costs more than the price is for: ${services.join(", ")}. ${EXPENSIVE_ADVICE}`,
    { provider, model, services: services.join(", ") },
  );
}

export function expensiveRoutesNotice(count: number, atMs: number): Notice {
  return notice(
    "service_expensive",
    undefined,
    atMs,
    `${count} routes serve something that costs more than the price is for. The log names them (\`service_expensive\`). ${EXPENSIVE_ADVICE}`,
    { routes: count },
  );
}

/** Why no charge can be written. */
const BLOCKED = {
  full: "its disk is full",
  busy: "another process keeps it locked",
  unreachable: "its server cannot be reached",
} as const;

export type BlockedBy = keyof typeof BLOCKED;

export function blockedStoreNotice(reason: BlockedBy, atMs: number): Notice {
  return notice(
    "store_blocked",
    undefined,
    atMs,
    `The database cannot be written: ${BLOCKED[reason]}. The gateway refuses requests until it can. \`tollgate doctor\` says what to do.`,
    { reason },
  );
}

export function failedAuditNotice(atMs: number): Notice {
  return notice(
    "audit_failed",
    undefined,
    atMs,
    "The last audit or backup found that the records of the database do not agree. `tollgate audit` shows the problems. Keep the last good backup.",
  );
}
