import type { App } from "../app.ts";
import type { Caller } from "../auth/knownKeys.ts";
import { Account, balanceForm, keyForm, remainingForm } from "../contract/account/account.ts";
import { attemptForm } from "../contract/account/attempt.ts";
import { Receipt, receiptForm } from "../contract/account/receipt.ts";
import {
  checkUsageParameters,
  usageDays,
  usageForm,
  UsageQuery,
  UsageReport,
  USAGE_DAYS_MAX,
  type UsageSums,
} from "../contract/account/usageReport.ts";
import {
  incompleteRequest,
  rateLimitExceeded,
  requestNotFound,
  serviceUnavailable,
} from "../contract/errors.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { addUsage } from "../contract/usage.ts";
import { ShuttingDown } from "../gateway/gateway.ts";
import { assert } from "../lib/assert.ts";
import type { DaySpan } from "../lib/clock.ts";
import { available } from "../store/store.ts";
import { declaredRoute } from "./declaredRoute.ts";
import { idParameter } from "./requestPath.ts";
import { limitsInForce } from "./authentication.ts";
import type { InFlightRequest } from "./inFlightRequest.ts";

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
  transform: ({ request }: { request: Request }) => checkUsageParameters(queryOf(request)),
  response: { 200: UsageReport, ...errorAnswers(400, 401, 429, 502) },
});

/** GET /v1/requests/{id}. */
export const getReceipt = declaredRoute({
  detail: {
    operationId: "getReceipt",
    tags: ["account"],
    summary: "Shows the status and the cost of one request of the account",
    responses: { 200: { description: "The receipt." } },
  },
  ...idParameter("The `x-request-id` header of an answer."),
  response: { 200: Receipt, ...errorAnswers(400, 401, 404, 429, 502) },
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

/** One request of the caller's account. Throws ApiError 404, also for a request of another account. */
export function receiptOf(app: App, caller: Caller, id: string): Receipt {
  const receipt = app.gateway.store.requests.receipt(caller.accountId, id);
  if (receipt === undefined) throw requestNotFound();
  const attempts = app.gateway.store.requests.attempts(id);
  return { ...receiptForm(receipt), attempts: attempts.map(attemptForm) };
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
  const { request, caller } = inFlight;
  inFlight.startWaiting();
  const sums = usageSums(app, request, caller.accountId, { by, days });
  const rows = app.fairQueue.run(caller.accountId, sums);
  // Too many reports of this account are running.
  if (rows === undefined) throw rateLimitExceeded();
  return { object: "list", data: (await rows).map((row) => usageForm(by, row)) };
}

/** The sums of each group, sorted: days oldest first, models by name. Reads one day in each step. */
function* usageSums(
  app: App,
  request: Request,
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
    if (request.signal.aborted) throw incompleteRequest();
    if (app.gateway.inFlight.isAborting) throw serviceUnavailable(new ShuttingDown());
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

function queryOf({ url }: Request): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : url.slice(start + 1));
}
