import type { ReportSpan } from "../../contract/operator/span.ts";
import type { Connection } from "../connection.ts";
import { retentionStart, type TimeSpan } from "../usage/sums.ts";
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
 * The reads of the operator's console. Each one takes at most a quarter of a second with a million requests:
 * `bun bench/console.ts`. They are for a process of their own, not for a serving gateway.
 */
export interface Reports {
  overview(span: ReportSpan, nowMs: number): Promise<OverviewReport>;
  /** The usage of one account, by its row id. */
  account(accountId: number, span: ReportSpan, nowMs: number): Promise<UsageReport>;
  providers(span: ReportSpan, nowMs: number): Promise<ProvidersReport>;
  accounts(search: AccountSearch, nowMs: number): Promise<Listed<ListedAccount>>;
  keys(search: KeySearch, nowMs: number): Promise<Listed<ListedKey>>;
}

export function reports(connection: Connection): Reports {
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
    overview: (span, nowMs) =>
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
    account: (account, span, nowMs) =>
      withSpan(span, nowMs, (snapshot, stepped, since) =>
        readUsage(snapshot, stepped, since, account),
      ),
    providers: (span, nowMs) => withSpan(span, nowMs, readProviders),
    accounts: (options, nowMs) =>
      connection.inSnapshot((snapshot) => searchAccounts(snapshot, options, nowMs)),
    keys: (options, nowMs) =>
      connection.inSnapshot((snapshot) => searchKeys(snapshot, options, nowMs)),
  };
}

async function sampledLatencies(snapshot: Connection, span: TimeSpan): Promise<SampledLatencies> {
  const { measured, isAll } = await readLatencies(snapshot, span);
  return { ...latenciesOf(measured), isAll, requests: measured.length };
}
