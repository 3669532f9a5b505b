import type { App } from "../app.ts";
import { Account, balanceForm, keyForm, remainingForm } from "../contract/account/account.ts";
import {
  usageDays,
  usageForm,
  UsageQuery,
  UsageReport,
  USAGE_DAYS_MAX,
  type UsageSums,
} from "../contract/account/usageReport.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { checkParameters } from "../contract/queryParameters.ts";
import { addUsage } from "../contract/usage.ts";
import { assert } from "../lib/assert.ts";
import type { DaySpan } from "../lib/clock.ts";
import { available } from "../store/store.ts";
import { declaredRoute } from "./declaredRoute.ts";
import { limitsInForce } from "./authentication.ts";
import type { InFlightRequest } from "./inFlightRequest.ts";
import { queryOf, runInSteps } from "./reports.ts";

/** GET /v1/account. */
export const getAccount = declaredRoute({
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
  detail: {
    operationId: "getUsage",
    tags: ["account"],
    summary: "Reports the usage of the account",
    description: `A report covers whole days in UTC, at most ${USAGE_DAYS_MAX}.`,
    responses: { 200: { description: "The report." } },
  },
  query: UsageQuery,
  // Runs after the authentication and before Elysia checks the query.
  transform: ({ request }: { request: Request }) => checkParameters(UsageQuery, queryOf(request)),
  response: { 200: UsageReport, ...errorAnswers(400, 401, 429, 502) },
});

/** The caller's account and key, as the store has them now, and what is left of the key's limits after this request. */
export function accountOf(app: App, { caller, permit, snapshot }: InFlightRequest): Account {
  const { accounts, keys } = app.gateway.store;
  const account = accounts.find(caller.account);
  const key = keys.find(caller.publicId);
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

/**
 * The usage of the caller's account. A report can read many rows, so it runs in steps, in turn with other reports.
 * Throws ApiError.
 */
export async function usageOf(
  app: App,
  inFlight: InFlightRequest,
  query: UsageQuery,
): Promise<UsageReport> {
  const { by = "day" } = query;
  const days = usageDays(query, app.gateway.clock.epochMs());
  const sums = usageSums(app, inFlight.caller.accountId, { by, days });
  const rows = await runInSteps(app, inFlight, sums);
  return { object: "list", data: rows.map((row) => usageForm(by, row)) };
}

/** The sums of each group, sorted: days oldest first, models by name. Reads one day in each step. */
function* usageSums(
  app: App,
  accountId: number,
  { by, days }: { readonly by: string; readonly days: DaySpan },
): Generator<undefined, readonly UsageSums[]> {
  const groups = new Map<string, UsageSums>();
  for (const { date, models } of app.gateway.store.usageOfAccount(accountId, days)) {
    for (const sums of models) {
      const group = by === "day" ? date : sums.group;
      groups.set(group, { ...sumOf(groups.get(group), sums), group });
    }
    yield;
  }
  return [...groups.values()].toSorted((a, b) => (a.group < b.group ? -1 : 1));
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
