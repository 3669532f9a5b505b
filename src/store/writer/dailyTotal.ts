import { DAY_MS } from "../../lib/clock.ts";

/** What ended requests of one group add to the totals of a day. */
export interface DailyTotal {
  /** Days since 1970, in UTC. */
  readonly day: number;
  readonly accountId: number;
  readonly keyId: number;
  readonly model: string;
  /** Empty where no provider answered. */
  readonly provider: string;
  readonly endpoint: string;
  requests: number;
  failed: number;
  /** Requests with a charge, also of 0. */
  charged: number;
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  cacheWrite1hTokens: number;
  completionTokens: number;
  webSearches: number;
  charge: bigint;
  writeOff: bigint;
  operatorCost: bigint;
}

export function dayOf(atMs: number): number {
  return Math.floor(atMs / DAY_MS);
}

type TotalGroup = Pick<
  DailyTotal,
  "day" | "accountId" | "keyId" | "model" | "provider" | "endpoint"
>;

export function emptyTotal(group: TotalGroup): DailyTotal {
  return {
    ...group,
    requests: 0,
    failed: 0,
    charged: 0,
    promptTokens: 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    completionTokens: 0,
    webSearches: 0,
    charge: 0n,
    writeOff: 0n,
    operatorCost: 0n,
  };
}
