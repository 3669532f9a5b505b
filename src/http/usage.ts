import type { App } from "../app.ts";
import { incompleteRequest, rateLimitExceeded, serviceUnavailable } from "../contract/errors.ts";
import { usageForm, type UsageSums } from "../contract/usageForm.ts";
import { checkUsageQuery, type UsageQuery } from "../contract/usageQuery.ts";
import { ShuttingDown } from "../gateway/gateway.ts";
import { takePlace, type Entry } from "./place.ts";

/**
 * What the caller's account used, as the books have it now. Many days of many keys and models are many sums to read, so
 * they are read in turns with everybody else's work. Throws ApiError.
 */
export async function showUsage(app: App, entry: Omit<Entry, "trace">): Promise<string> {
  const { request, caller } = entry;
  const place = takePlace(app, entry);
  try {
    place.waits();
    const query = checkUsageQuery(queryOf(request), app.gateway.clock.epochMs());
    const rows = app.fairQueue.run(caller.accountId, sumUp(app, request, caller.accountId, query));
    // Another report of the account is over soon.
    if (rows === undefined) throw rateLimitExceeded();
    const data = (await rows).map((row) => usageForm(query.by, row));
    return JSON.stringify({ object: "list", data });
  } finally {
    place.leave();
  }
}

/** Days oldest first, models by name. */
function* sumUp(
  app: App,
  request: Request,
  accountId: number,
  { by, days }: UsageQuery,
): Generator<undefined, readonly UsageSums[]> {
  const groups = new Map<string, UsageSums>();
  for (const { date, models } of app.gateway.store.usageOfAccount(accountId, days)) {
    for (const sums of models) {
      const group = by === "day" ? date : sums.group;
      groups.set(group, { ...added(groups.get(group), sums), group });
    }
    yield;
    if (request.signal.aborted) throw incompleteRequest();
    if (app.gateway.inFlight.isAborting) throw serviceUnavailable(new ShuttingDown());
  }
  return [...groups.values()].toSorted((a, b) => (a.group < b.group ? -1 : 1));
}

function added(before: UsageSums | undefined, sums: UsageSums): UsageSums {
  if (before === undefined) return sums;
  return {
    group: before.group,
    requests: before.requests + sums.requests,
    promptTokens: before.promptTokens + sums.promptTokens,
    cachedTokens: before.cachedTokens + sums.cachedTokens,
    cacheWriteTokens: before.cacheWriteTokens + sums.cacheWriteTokens,
    completionTokens: before.completionTokens + sums.completionTokens,
    cost: before.cost + sums.cost,
    failed: before.failed + sums.failed,
    refunded: before.refunded + sums.refunded,
  };
}

function queryOf({ url }: Request): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : url.slice(start + 1));
}
