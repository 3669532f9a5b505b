import { computed, signal } from "@preact/signals";
import type { ModelPrices } from "../../contract/operator/modelPrices.ts";
import type { ProviderReport } from "../../contract/operator/providerReport.ts";
import { Lines, StackedBars } from "../charts/chart.tsx";
import type { Series } from "../charts/series.ts";
import { SearchField, SpanChoice, type SpanName } from "../components/fields.tsx";
import { Figure, Figures } from "../components/figures.tsx";
import { Columns, Panel, ViewHead } from "../components/frame.tsx";
import { EmptyState, Loaded, Notice, SkeletonBlock } from "../components/states.tsx";
import { Table, type Column } from "../components/table.tsx";
import { Name } from "../components/text.tsx";
import { Count, Duration, Money, Tag, type TagTone } from "../components/values.tsx";
import { formats } from "../language.ts";
import { furtherPricesText } from "../receipt/pricing.ts";
import { createResource, useResource } from "../resource.ts";
import { hrefOf } from "../router.ts";
import { followStore } from "./live.ts";
import { call } from "./call.ts";
import { CachedShare } from "./caches.tsx";
import { text } from "./text.ts";

const span = signal<SpanName>("7d");

/** How the providers do, what the models cost, and what `tollgate check` says of the config. */
export function Providers() {
  const report = useResource(() =>
    followStore(createResource((abort) => call("GET /api/providers", { span: span.value }, abort))),
  );
  return (
    <>
      <ViewHead title={text.views.providers} actions={<SpanChoice value={span} />} />
      <ConfigFindings />
      <Loaded resource={report} skeleton={<SkeletonBlock rem={24} />}>
        {(data) =>
          data.providers.length === 0 ? (
            <EmptyState />
          ) : (
            <>
              <Breakers report={data} />
              {data.providers.map((provider) => (
                <Provider key={provider.provider} provider={provider} report={data} />
              ))}
            </>
          )
        }
      </Loaded>
      <Models />
    </>
  );
}

function ConfigFindings() {
  const report = useResource(() => createResource((abort) => call("GET /api/check", {}, abort)));
  return (
    <Loaded resource={report} skeleton={<SkeletonBlock rem={3} />}>
      {({ ok, problems, warnings }) => (
        <Notice
          tone={ok ? (warnings.length > 0 ? "warning" : "good") : "failure"}
          title={ok ? text.providers.configGood : text.providers.configBad}
        >
          {problems.length + warnings.length > 0 && (
            <ul>
              {[...problems, ...warnings].map((one) => (
                <li key={one}>
                  <Name text={one} />
                </li>
              ))}
            </ul>
          )}
        </Notice>
      )}
    </Loaded>
  );
}

const breakerTones: Readonly<Record<"closed" | "half-open" | "open", TagTone>> = {
  closed: "good",
  "half-open": "warning",
  open: "bad",
};

/** The states that the gateway reports now, or why they are not known. */
function Breakers({ report: { breakers, breakers_error } }: { report: ProviderReport }) {
  return (
    <Panel title={text.providers.breakers} text={text.providers.breakersHint}>
      {breakers === null && (
        <p>{breakers_error === null ? text.providers.noMetrics : <Name text={breakers_error} />}</p>
      )}
      {breakers?.length === 0 && <p>{text.providers.noBreakers}</p>}
      {breakers !== null && breakers.length > 0 && (
        <ul class="attention">
          {breakers.map(({ provider, model, state }) => (
            <li key={`${provider} ${model}`}>
              <Tag tone={breakerTones[state]}>{text.providers.states[state]}</Tag>
              <Name text={provider} />
              <span class="muted">
                <Name text={model} isCode />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

type ProviderRow = ProviderReport["providers"][number];

function Provider({ provider: row, report }: { provider: ProviderRow; report: ProviderReport }) {
  const { series } = row;
  const latencies: readonly Series[] = [
    { name: text.providers.firstByteP50, values: series.first_byte_p50_ms },
    { name: text.providers.firstByteP95, values: series.first_byte_p95_ms },
  ];
  return (
    <Panel
      title={<Name text={row.provider} />}
      text={
        <Name
          text={[row.kind ?? text.providers.notInConfig, row.base_url].filter(Boolean).join(" · ")}
        />
      }
      actions={
        <a href={hrefOf(["requests"], { provider: row.provider })}>{text.providers.itsRequests}</a>
      }
    >
      <Figures>
        <Figure label={text.overview.requests} value={<Count value={row.requests} />} />
        <Figure
          label={text.providers.errorShare}
          value={row.error_share === null ? text.none : formats.percent(row.error_share)}
          note={text.attention.failedOf(formats.count(row.failed), formats.count(row.attempts))}
        />
        <Figure
          label={text.overview.firstByte}
          value={<Duration ms={row.first_byte_ms?.p50} />}
          note={row.first_byte_ms && text.overview.p95(formats.duration(row.first_byte_ms.p95))}
        />
        <Figure
          label={text.overview.duration}
          value={<Duration ms={row.duration_ms?.p50} />}
          note={row.duration_ms && text.overview.p95(formats.duration(row.duration_ms.p95))}
        />
        <Figure label={text.overview.charged} value={<Money amount={row.charged_rub} />} />
        <Figure
          label={text.overview.operatorCost}
          value={<Money amount={row.operator_cost_rub} />}
        />
        <CachedShare of={row} />
      </Figures>
      {row.outcomes.length > 0 && (
        <p class="row tags">
          {row.outcomes.map(({ outcome, attempts }) => (
            <Tag key={outcome} tone="bad">
              {outcome} {formats.count(attempts)}
            </Tag>
          ))}
        </p>
      )}
      <Columns>
        <StackedBars
          caption={text.providers.attempts}
          times={report.times}
          by={report.step}
          kind="count"
          series={attemptSeries(series)}
        />
        <Lines
          caption={text.providers.firstByte}
          times={report.times}
          by={report.step}
          kind="duration"
          series={latencies}
        />
      </Columns>
    </Panel>
  );
}

/** Attempts that succeeded, and those that failed. */
function attemptSeries({ attempts, failed }: ProviderRow["series"]): readonly Series[] {
  const succeeded = attempts.map((count, at) =>
    count === null ? null : count - (failed[at] ?? 0),
  );
  return [
    { name: text.providers.succeeded, values: succeeded },
    { name: text.providers.failed, values: failed },
  ];
}

type ModelRow = ModelPrices["data"][number];

const search = signal("");

/** The models of the config with prices and routes. */
function Models() {
  const models = useResource(() => createResource((abort) => call("GET /api/models", {}, abort)));
  const rows = computed(() =>
    models.data.value?.data.filter(({ id }) =>
      id.toLowerCase().includes(search.value.toLowerCase()),
    ),
  );
  const price = (id: string, head: string, value: (row: ModelRow) => number): Column<ModelRow> => ({
    id,
    head,
    kind: "money",
    value: (row) => roublesOf(value(row)),
    isSortable: true,
  });
  const columns: readonly Column<ModelRow>[] = [
    { id: "id", head: text.providers.model, kind: "code", value: ({ id }) => id },
    price("input", text.providers.input, ({ prices }) => prices.rub_input_per_1m),
    price("cached", text.providers.cached, ({ prices }) => prices.rub_cached_input_per_1m),
    price("output", text.providers.output, ({ prices }) => prices.rub_output_per_1m),
    {
      id: "further",
      head: text.providers.further,
      value: (row) => furtherTexts(row).join("; ") || null,
    },
    {
      id: "routes",
      head: text.providers.routes,
      value: ({ routes }) => routes.map(routeText).join("; "),
      cell: ({ routes }) => <Routes routes={routes} />,
    },
    {
      id: "fallbacks",
      head: text.providers.fallbacks,
      value: ({ fallbacks }) => (fallbacks.length === 0 ? null : fallbacks.join(", ")),
    },
  ];
  return (
    <Panel
      isFlush
      title={text.providers.models}
      text={text.providers.perMillion}
      actions={<SearchField label={text.providers.searchModels} value={search} />}
    >
      <Table
        caption={text.providers.models}
        isCaptionHidden
        columns={columns}
        rows={rows.value}
        keyOf={({ id }) => id}
        failure={models.failure.value}
        isLoading={models.isLoading.value}
        onRetry={models.reload}
        canCopyCsv
      />
    </Panel>
  );
}

function Routes({ routes }: Pick<ModelRow, "routes">) {
  return (
    <ol>
      {routes.map((route) => (
        <li key={`${route.provider} ${route.model} ${route.priority}`}>
          <Name text={routeText(route)} />
        </li>
      ))}
    </ol>
  );
}

/** The prices of tiers by length and of service tiers, and those of plans. */
function furtherTexts({ plans, ...model }: ModelRow): readonly string[] {
  const ofPlans = plans.flatMap(({ plan, prices, ...further }) => {
    const pair = `${roublesOf(prices.rub_input_per_1m)} / ${roublesOf(prices.rub_output_per_1m)}`;
    const lines = furtherPricesText(further).map((line) => `${plan}, ${line}`);
    return [`${plan}: ${pair}`].concat(lines);
  });
  return furtherPricesText(model).concat(ofPlans);
}

function routeText(route: ModelRow["routes"][number]): string {
  const { provider, model, priority, weight, input_margin_percent, output_margin_percent } = route;
  const { lowest_margin: lowest } = route;
  const margins =
    input_margin_percent === null || output_margin_percent === null
      ? []
      : [
          text.providers.margins(
            formats.percent(input_margin_percent / 100),
            formats.percent(output_margin_percent / 100),
          ),
        ].concat(
          lowest === null
            ? []
            : text.providers.lowestMargin(formats.percent(lowest.percent / 100), lowest.price),
        );
  return [`${provider}: ${model}`, text.providers.order(priority, weight), ...margins].join(", ");
}

/** Thousandths of a rouble as decimal roubles. */
function roublesOf(thousandths: number): string {
  const text = String(thousandths).padStart(4, "0");
  return `${text.slice(0, -3)}.${text.slice(-3)}`.replace(/\.?0+$/, "");
}
