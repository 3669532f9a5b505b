import { addUsage, noUsage, type Usage } from "../../../src/contract/usage.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";
import type { UsageFilter, UsageGrouping, UsageRow } from "../../../src/store/store.ts";

/** A request as the test made it, which the store has to count. */
export interface ReportedRequest extends Usage {
  readonly id: string;
  readonly at: number;
  readonly account: string;
  readonly key: string;
  readonly model: string;
  provider: string;
  status: "running" | "done" | "failed" | "cancelled" | "interrupted";
  charge: bigint;
  operatorCost: bigint;
  refunded: bigint;
}

/** The expected report of the requests. Those admitted before `retentionStart` are folded. */
export function modelUsage(
  requests: readonly ReportedRequest[],
  by: UsageGrouping,
  filter: UsageFilter,
  retentionStart: number,
): UsageRow[] {
  const groups = new Map<string, UsageRow>();
  for (const request of requests) {
    if (filter.account !== undefined && request.account !== filter.account) continue;
    if (!isAskedFor(request, filter, retentionStart)) continue;
    const group = by === "day" ? new Date(request.at).toISOString().slice(0, 10) : request[by];
    const row = groups.get(group) ?? emptyRow(group);
    groups.set(group, row);
    row.requests += 1;
    row.failed += request.status === "failed" || request.status === "interrupted" ? 1 : 0;
    Object.assign(row, addUsage(row, request));
    row.cost += request.charge;
    row.operatorCost += request.operatorCost;
    row.refunded += request.refunded;
  }
  return [...groups.values()].sort((a, b) => (a.group < b.group ? -1 : 1));
}

/** A part of a day that begins before `retentionStart` counts as the whole day. */
function isAskedFor(
  { at }: ReportedRequest,
  { since = 0, until = Infinity }: UsageFilter,
  retentionStart: number,
): boolean {
  if (since <= at && at < until) return true;
  const dayStart = Math.floor(at / DAY_MS) * DAY_MS;
  const from = Math.max(since, dayStart);
  const to = Math.min(until, dayStart + DAY_MS);
  return from < to && from < retentionStart;
}

function emptyRow(group: string): UsageRow {
  return {
    group,
    requests: 0,
    ...noUsage,
    cost: 0n,
    operatorCost: 0n,
    failed: 0,
    refunded: 0n,
  };
}
