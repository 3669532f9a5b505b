import type { App } from "../app.ts";
import { Account, balanceForm, keyForm, remainingForm } from "../contract/account/account.ts";
import {
  isByHour,
  usageDays,
  usageForm,
  usageGroup,
  UsageQuery,
  UsageReport,
  USAGE_DAYS_MAX,
  type UsageGroup,
  type UsageSums,
} from "../contract/account/usageReport.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { checkParameters } from "../contract/queryParameters.ts";
import { addUsage } from "../contract/usage.ts";
import { assert } from "../lib/assert.ts";
import { available, type PeriodUsage } from "../store/store.ts";
import { declaredRoute } from "./declaredRoute.ts";
import { limitsInForce } from "./authentication.ts";
import type { InFlightRequest } from "./authentication.ts";
import { queryOf, runFairly } from "./reports.ts";

/** GET /v1/account. */
export const getAccount = declaredRoute({
  endpoint: "account",
  detail: {
    operationId: "getAccount",
    tags: ["account"],
    summary: "Shows the key and the money of its account",
    description:
      "Open requests hold a part of the balance. The available money is the rest plus the overdraft.",
    responses: { 200: { description: "The account." } },
  },
  response: { 200: Account, ...errorAnswers(400, 401, 429, 502) },
});

/** GET /v1/usage. */
export const getUsage = declaredRoute({
  endpoint: "usage",
  detail: {
    operationId: "getUsage",
    tags: ["account"],
    summary: "Reports the usage of the account",
    description: `A report covers whole days in UTC, at most ${USAGE_DAYS_MAX}. By hour it covers at most 3, and has no requests that are older than the operator keeps them.`,
    responses: { 200: { description: "The report." } },
  },
  query: UsageQuery,
  // Runs after the authentication and before Elysia checks the query.
  transform: ({ request }: { request: Request }) => checkParameters(UsageQuery, queryOf(request)),
  response: { 200: UsageReport, ...errorAnswers(400, 401, 429, 502) },
});

/** The caller's account and key as the store has them, and what is left of the key's limits. */
export async function accountOf(
  app: App,
  { caller, permit, snapshot }: InFlightRequest,
): Promise<Account> {
  const { accounts, keys } = app.gateway.store;
  const account = await accounts.find(caller.account);
  const key = await keys.find(caller.publicId);
  assert(account !== undefined && key !== undefined, "a caller without an account");
  return {
    account: account.name,
    ...balanceForm(account, available(account)),
    key: {
      ...keyForm(key, limitsInForce(app, key)),
      limits_remaining: remainingForm(permit.remaining()),
    },
    contact_url: snapshot.config.page.contact ?? null,
  };
}

/** The usage of the caller's account. A report can read many rows, so it takes turns with others. Rejects with ApiError. */
export async function usageOf(
  app: App,
  inFlight: InFlightRequest,
  query: UsageQuery,
): Promise<UsageReport> {
  const days = usageDays(query, app.gateway.clock.epochMs());
  const { usage } = app.gateway.store;
  const period = isByHour(query) ? "ofAccountByHour" : "ofAccountByDay";
  const periods = await runFairly(app, inFlight, (pause) =>
    usage[period](inFlight.caller.accountId, days, pause),
  );
  return {
    object: "list",
    data: usageRows(query, periods).map(([group, sums]) => usageForm(group, sums)),
  };
}

/** The sums of each group, sorted: oldest first, then models by name. */
function usageRows(
  query: UsageQuery,
  periods: readonly PeriodUsage[],
): readonly (readonly [UsageGroup, UsageSums])[] {
  const rows = new Map<string, readonly [UsageGroup, UsageSums]>();
  for (const { period, sums } of periods) {
    const group = usageGroup(query, { period, model: sums.group });
    const key = Object.values(group).join("\n");
    rows.set(key, [group, sumOf(rows.get(key)?.[1], sums)]);
  }
  return [...rows].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

function sumOf(before: UsageSums | undefined, sums: UsageSums): UsageSums {
  if (before === undefined) return sums;
  return {
    group: before.group,
    requests: before.requests + sums.requests,
    ...addUsage(before, sums),
    cost: before.cost + sums.cost,
    failed: before.failed + sums.failed,
    refunded: before.refunded + sums.refunded,
  };
}
