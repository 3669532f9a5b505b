import type { ReportSpan } from "../../contract/operator/span.ts";
import { lazy } from "../../lib/lazy.ts";
import type { Connection } from "../sqlite/sqlite.ts";
import { keyTable } from "../tables/keys.ts";
import { retentionStart, type TimeSpan } from "../tables/usage.ts";
import { readAttention, type Attention } from "./attention.ts";
import {
  searchAccounts,
  searchKeys,
  type Listed,
  type ListedAccount,
  type ListedKey,
} from "./directory.ts";
import { latenciesOf, readLatencies, type Latencies } from "./latency.ts";
import { readProviders, type ProvidersReport } from "./providersReport.ts";
import { searchRequests, type FoundRequests, type RequestSearch } from "./requestSearch.ts";
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
  overview(span: ReportSpan, nowMs: number): OverviewReport;
  /** The usage of one account, by its row id. */
  account(accountId: number, span: ReportSpan, nowMs: number): UsageReport;
  providers(span: ReportSpan, nowMs: number): ProvidersReport;
  /** `searchMs`: how long one answer may search. */
  requests(search: RequestSearch, searchMs?: number): FoundRequests;
  /** `search`: a part of the name. */
  accounts(
    options: { readonly search?: string | undefined; readonly limit: number },
    nowMs: number,
  ): Listed<ListedAccount>;
  /** `search`: a part of the id, label, prefix or account. `account`: the name. */
  keys(
    options: {
      readonly search?: string | undefined;
      readonly account?: string | undefined;
      readonly limit: number;
    },
    nowMs: number,
  ): Listed<ListedKey>;
}

export function reports(connection: Connection): Reports {
  const { sqlite } = connection;
  const keys = lazy(() => keyTable(connection));
  const inSnapshot = <T>(read: () => T): T => sqlite.transaction(read)();
  const withSpan = <T>(
    span: ReportSpan,
    nowMs: number,
    read: (stepped: SteppedSpan, retentionStart: number) => T,
  ): T =>
    inSnapshot(() => {
      const since = Number(retentionStart(sqlite));
      return read(steppedSpan(span, nowMs, since), since);
    });
  const latencies = (span: TimeSpan): SampledLatencies => {
    const { measured, isAll } = readLatencies(sqlite, span);
    return { ...latenciesOf(measured), isAll, requests: measured.length };
  };
  return {
    overview: (span, nowMs) =>
      withSpan(span, nowMs, (stepped, since) => ({
        ...readUsage(sqlite, stepped, { retentionStart: since }),
        latencies: { now: latencies(stepped), before: latencies(stepped.before) },
        attention: readAttention(sqlite, stepped, nowMs),
      })),
    account: (account, span, nowMs) =>
      withSpan(span, nowMs, (stepped, since) =>
        readUsage(sqlite, stepped, { account, retentionStart: since }),
      ),
    providers: (span, nowMs) =>
      withSpan(span, nowMs, (stepped, since) => readProviders(sqlite, stepped, since)),
    requests: (search, searchMs) => inSnapshot(() => searchRequests(connection, search, searchMs)),
    accounts: (options, nowMs) => inSnapshot(() => searchAccounts(connection, options, nowMs)),
    keys: (options, nowMs) => inSnapshot(() => searchKeys(connection, keys(), options, nowMs)),
  };
}
