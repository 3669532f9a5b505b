import type { ReportSpan } from "../../contract/operator/span.ts";
import type { Connection } from "../sqlite.ts";
import { keyTable } from "../tables/keys.ts";
import { retentionStart, type TimeSpan } from "../tables/usage.ts";
import { lazy } from "../../lib/lazy.ts";
import { readAttempts, type AttemptSteps } from "./attempts.ts";
import { readAttention, type Attention } from "./attention.ts";
import {
  searchAccounts,
  searchKeys,
  type Listed,
  type ListedAccount,
  type ListedKey,
} from "./directory.ts";
import {
  figuresOf,
  readCells,
  readTotal,
  totalOf,
  type Figures,
  type UsageCells,
} from "./figures.ts";
import { latenciesOf, readLatencies, type Latencies, type LatencySample } from "./latency.ts";
import { searchRequests, type FoundRequests, type RequestConditions } from "./requestSearch.ts";
import { steppedSpan, type SteppedSpan } from "./span.ts";

/** A span with its figures. */
export interface SpanFigures extends TimeSpan {
  readonly figures: Figures;
}

/** The usage of one span in all groupings, and of the span before it. */
export interface UsageReport {
  readonly span: SteppedSpan;
  readonly cells: UsageCells;
  readonly now: SpanFigures;
  readonly before: SpanFigures;
}

export interface OverviewReport extends UsageReport {
  readonly latencies: { readonly now: SampledLatencies; readonly before: SampledLatencies };
  readonly attention: Attention;
}

export interface SampledLatencies extends Latencies, Pick<LatencySample, "isAll"> {
  readonly requests: number;
}

export interface ProvidersReport {
  readonly span: SteppedSpan;
  readonly cells: UsageCells;
  /** Steps before this time have no attempts. */
  readonly retentionStart: number;
  readonly attempts: ReadonlyMap<string, AttemptSteps>;
  readonly sample: LatencySample;
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
  /** `before` is the `next` of the answer before. `searchMs`: how long one answer may search. */
  requests(
    search: RequestConditions & { readonly limit: number; readonly before?: number | undefined },
    searchMs?: number,
  ): FoundRequests;
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
  const keptSince = (): number => Number(retentionStart(sqlite));
  const usage = (span: SteppedSpan, since: number, account?: number): UsageReport => {
    const options = { account, retentionStart: since };
    const cells = readCells(sqlite, span, options);
    const { from, to, before } = span;
    return {
      span,
      cells,
      now: { from, to, figures: figuresOf(totalOf(cells.byKey.values())) },
      before: { ...before, figures: readTotal(sqlite, before, options) },
    };
  };
  return {
    overview: (span, nowMs) =>
      inSnapshot(() => {
        const since = keptSince();
        const stepped = steppedSpan(span, nowMs, since);
        const latencies = (part: TimeSpan): SampledLatencies => {
          const { measured, isAll } = readLatencies(sqlite, part);
          return { ...latenciesOf(measured), isAll, requests: measured.length };
        };
        return {
          ...usage(stepped, since),
          latencies: { now: latencies(stepped), before: latencies(stepped.before) },
          attention: readAttention(sqlite, stepped, nowMs),
        };
      }),
    account: (accountId, span, nowMs) =>
      inSnapshot(() => {
        const since = keptSince();
        return usage(steppedSpan(span, nowMs, since), since, accountId);
      }),
    providers: (span, nowMs) =>
      inSnapshot(() => {
        const since = keptSince();
        const stepped = steppedSpan(span, nowMs, since);
        const cells = readCells(sqlite, stepped, { retentionStart: since });
        const answered = new Map(
          [...cells.byProvider].map(([provider, steps]) => [
            provider,
            steps.map((sums) => figuresOf(sums).requests),
          ]),
        );
        return {
          span: stepped,
          cells,
          retentionStart: since,
          attempts: readAttempts(sqlite, stepped, since, answered),
          sample: readLatencies(sqlite, stepped),
        };
      }),
    requests: (search, searchMs) => inSnapshot(() => searchRequests(connection, search, searchMs)),
    accounts: (options, nowMs) => inSnapshot(() => searchAccounts(connection, options, nowMs)),
    keys: (options, nowMs) => inSnapshot(() => searchKeys(connection, keys(), options, nowMs)),
  };
}
