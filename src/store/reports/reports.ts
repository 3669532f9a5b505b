import type { ReportSpan } from "../../contract/operator/span.ts";
import type { Connection } from "../connection.ts";
import type { Steps } from "../steps.ts";
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
  overview(span: ReportSpan, nowMs: number): Steps<OverviewReport>;
  /** The usage of one account, by its row id. */
  account(accountId: number, span: ReportSpan, nowMs: number): Steps<UsageReport>;
  providers(span: ReportSpan, nowMs: number): Steps<ProvidersReport>;
  accounts(search: AccountSearch, nowMs: number): Steps<Listed<ListedAccount>>;
  keys(search: KeySearch, nowMs: number): Steps<Listed<ListedKey>>;
}

export function reports(connection: Connection): Reports {
  const withSpan = <T>(
    span: ReportSpan,
    nowMs: number,
    read: (snapshot: Connection, stepped: SteppedSpan, retentionStart: number) => Steps<T>,
  ): Steps<T> =>
    connection.inSnapshot(function* (snapshot) {
      const since = yield* retentionStart(snapshot);
      return yield* read(snapshot, steppedSpan(span, nowMs, since), since);
    });
  return {
    overview: (span, nowMs) =>
      withSpan(span, nowMs, function* (snapshot, stepped, since) {
        return {
          ...(yield* readUsage(snapshot, stepped, since)),
          latencies: {
            now: yield* sampledLatencies(snapshot, stepped),
            before: yield* sampledLatencies(snapshot, stepped.before),
          },
          attention: yield* readAttention(snapshot, stepped, nowMs),
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

function* sampledLatencies(snapshot: Connection, span: TimeSpan): Steps<SampledLatencies> {
  const { measured, isAll } = yield* readLatencies(snapshot, span);
  return { ...latenciesOf(measured), isAll, requests: measured.length };
}
