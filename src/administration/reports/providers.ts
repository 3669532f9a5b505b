import type { Operator } from "../operator.ts";
import type { Config } from "../../config/schema.ts";
import type { ProviderReport } from "../../contract/operator/providerReport.ts";
import type { ReportSpan } from "../../contract/operator/span.ts";
import { isoTime } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { ProviderFigures } from "../../store/store.ts";
import { readBreakers } from "./breakers.ts";
import { savingForm, spanForm } from "./usage.ts";

type ReportedProvider = ProviderReport["providers"][number];

/** The answer of GET /api/providers. Providers of the config without a request come last. */
export async function providersOf(
  { store, config, actor }: Operator,
  span: ReportSpan,
): Promise<ProviderReport> {
  const breakers = readBreakers(config.metrics?.listen);
  const report = await store.reports.providers(span, actor.at);
  const seen = new Set(report.providers.map(({ provider }) => provider));
  const idle = config.providers
    .filter(({ id }) => !seen.has(id))
    .map(({ id }) => idleProvider(id, report.span.times.length));
  return {
    ...spanForm(report),
    attempts_from: isoTime(report.attemptsFrom),
    sample: { requests: report.sample.requests, is_all: report.sample.isAll },
    providers: [...report.providers.map(figuresOf), ...idle].map((figures) =>
      withSettings(figures, config),
    ),
    ...(await breakers),
  };
}

function withSettings(
  figures: ProviderFiguresForm,
  { providers, models }: Config,
): ReportedProvider {
  const id = figures.provider;
  const provider = providers.find((one) => one.id === id);
  return {
    ...figures,
    kind: provider?.kind ?? null,
    base_url: provider?.baseUrl ?? null,
    models: models
      .filter(({ routes }) =>
        routes.some((route) => route.provider === id || route.provider === provider?.provider),
      )
      .map((model) => model.id),
  };
}

type ProviderFiguresForm = Omit<ReportedProvider, "kind" | "base_url" | "models">;

function figuresOf({ figures, steps, ...of }: ProviderFigures): ProviderFiguresForm {
  return {
    provider: of.provider,
    requests: figures.requests,
    charged_rub: formatRoubles(figures.charged),
    operator_cost_rub: formatRoubles(figures.operatorCost),
    prompt_tokens: figures.promptTokens,
    cached_tokens: figures.cachedTokens,
    ...savingForm(figures),
    attempts: of.attempts,
    failed: of.failed,
    error_share: of.attempts > 0 ? of.failed / of.attempts : null,
    outcomes: [...of.outcomes],
    first_byte_ms: of.latencies.firstByte ?? null,
    duration_ms: of.latencies.duration ?? null,
    series: {
      requests: steps.map(({ requests }) => requests),
      attempts: steps.map(({ attempts }) => attempts ?? null),
      failed: steps.map(({ failed }) => failed ?? null),
      first_byte_p50_ms: steps.map(({ latencies }) => latencies.firstByte?.p50 ?? null),
      first_byte_p95_ms: steps.map(({ latencies }) => latencies.firstByte?.p95 ?? null),
      duration_p50_ms: steps.map(({ latencies }) => latencies.duration?.p50 ?? null),
      duration_p95_ms: steps.map(({ latencies }) => latencies.duration?.p95 ?? null),
    },
  };
}

function idleProvider(provider: string, steps: number): ProviderFiguresForm {
  const zeros = Array<number>(steps).fill(0);
  const nulls = Array<null>(steps).fill(null);
  return {
    provider,
    requests: 0,
    charged_rub: "0",
    operator_cost_rub: "0",
    prompt_tokens: 0,
    cached_tokens: 0,
    ...savingForm({ cacheSaved: 0n, operatorSaved: 0n }),
    attempts: 0,
    failed: 0,
    error_share: null,
    outcomes: [],
    first_byte_ms: null,
    duration_ms: null,
    series: {
      requests: zeros,
      attempts: nulls,
      failed: nulls,
      first_byte_p50_ms: nulls,
      first_byte_p95_ms: nulls,
      duration_p50_ms: nulls,
      duration_p95_ms: nulls,
    },
  };
}
