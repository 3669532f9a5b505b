import { formatRoubles } from "../lib/money.ts";
import { tokenCounts, type Usage } from "./usage.ts";

/** Sums over the requests of one group; amounts are nano-roubles. */
export interface UsageSums extends Usage {
  group: string;
  requests: number;
  cost: bigint;
  failed: number;
  /** What was given back of their cost so far. */
  refunded: bigint;
}

/** One row of a usage report, with its group under the name of what it was grouped by. */
export function usageForm(by: string, sums: UsageSums) {
  return {
    [by]: sums.group,
    requests: sums.requests,
    ...tokenCounts(sums),
    cost_rub: formatRoubles(sums.cost),
    failed: sums.failed,
    refunded_rub: formatRoubles(sums.refunded),
  };
}
