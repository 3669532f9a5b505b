import type { ReportSpan } from "../../contract/operator/span.ts";
import type { Connection, TimeSpan } from "../connection.ts";
import { retentionStart } from "../usage/sums.ts";
import { readAttention, type Attention } from "./attention.ts";
import {
  searchAccounts,
  searchKeys,
  type AccountSearch,
  type KeySearch,
  type Listed,
  type ListedAccount,
  type ListedKey,
} from "./directory.ts";
import { latenciesOf, readLatencies, type Latencies } from "./latency.ts";
import { readProviders, type ProvidersReport } from "./providersReport.ts";
import { steppedSpan, type SteppedSpan } from "./span.ts";
import { readUsage, type UsageReport } from "./usageReport.ts";

/** `requests`: the number of requests that the percentiles come from. */
export interface SampledLatencies extends Latencies {
  readonly requests: number;
  readonly isAll: boolean;
}

export interface OverviewReport extends UsageReport {
  readonly latencies: { readonly now: SampledLatencies; readonly before: SampledLatencies };
  readonly attention: Attention;
}

/**
 * Each read takes at most a quarter of a second with a million requests: `bun bench/console.ts`. They are for a process of its
 * own, not for a serving gateway.
 */
export function reports(connection: Connection) {
  const withSpan = <T>(
    span: ReportSpan,
    nowMs: number,
    read: (snapshot: Connection, stepped: SteppedSpan, retentionStart: number) => Promise<T>,
  ): Promise<T> =>
    connection.inSnapshot(async (snapshot) => {
      const since = await retentionStart(snapshot);
      return await read(snapshot, steppedSpan(span, nowMs, since), since);
    });
  return {
    overview: (span: ReportSpan, nowMs: number): Promise<OverviewReport> =>
      withSpan(span, nowMs, async (snapshot, stepped, since) => {
        return {
          ...(await readUsage(snapshot, stepped, since)),
          latencies: {
            now: await sampledLatencies(snapshot, stepped),
            before: await sampledLatencies(snapshot, stepped.before),
          },
          attention: await readAttention(snapshot, stepped, nowMs),
        };
      }),
    account: (account: number, span: ReportSpan, nowMs: number): Promise<UsageReport> =>
      withSpan(span, nowMs, (snapshot, stepped, since) =>
        readUsage(snapshot, stepped, since, account),
      ),
    providers: (span: ReportSpan, nowMs: number): Promise<ProvidersReport> =>
      withSpan(span, nowMs, readProviders),
    accounts: (options: AccountSearch, nowMs: number): Promise<Listed<ListedAccount>> =>
      connection.inSnapshot((snapshot) => searchAccounts(snapshot, options, nowMs)),
    keys: (options: KeySearch, nowMs: number): Promise<Listed<ListedKey>> =>
      connection.inSnapshot((snapshot) => searchKeys(snapshot, options, nowMs)),
  };
}

async function sampledLatencies(snapshot: Connection, span: TimeSpan): Promise<SampledLatencies> {
  const { measured, isAll } = await readLatencies(snapshot, span);
  return { ...latenciesOf(measured), isAll, requests: measured.length };
}
