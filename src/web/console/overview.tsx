import { signal } from "@preact/signals";
import type { Overview as Report } from "../../contract/operator/overview.ts";
import { Lines, StackedBars } from "../charts/chart.tsx";
import type { Series } from "../charts/series.ts";
import { Choice, SpanChoice, type SpanName } from "../components/fields.tsx";
import { Change, Figure, Figures } from "../components/figures.tsx";
import { Panel, ViewHead } from "../components/frame.tsx";
import { ErrorState, StaleNotice } from "../components/states.tsx";
import { Table, type Column } from "../components/table.tsx";
import { Count, Duration, Money } from "../components/values.tsx";
import { formats } from "../language.ts";
import { createResource, useResource } from "../resource.ts";
import { hrefOf } from "../router.ts";
import { Attention } from "./attention.tsx";
import { followStore } from "./live.ts";
import { call } from "./call.ts";
import { CachedShare, shareOf } from "./caches.tsx";
import { text } from "./text.ts";

/** The choices stay when the reader leaves the view and comes back. */
const span = signal<SpanName>("30d");
const measure = signal<Measure>("charged");

type Measure = "charged" | "requests" | "tokens";

/** What the gateway earns, who spends, and what needs a look. */
export function Overview() {
  const report = useResource(() =>
    followStore(createResource((abort) => call("GET /api/overview", { span: span.value }, abort))),
  );
  const data = report.data.value;
  const failure = report.failure.value;
  const state = { failure, isLoading: report.isLoading.value, onRetry: report.reload };
  return (
    <>
      <ViewHead title={text.views[""]} actions={<SpanChoice value={span} />} />
      {data && failure && <StaleNotice failure={failure} onRetry={report.reload} />}
      {!data && failure ? (
        <ErrorState failure={failure} onRetry={report.reload} isRetrying={state.isLoading} />
      ) : (
        <>
          <Totals report={data} />
          <Attention attention={data?.attention} />
          <StackedBars
            caption={text.overview.use}
            {...chartOf(data, measure.value)}
            isLoading={state.isLoading}
            actions={
              <Choice
                label={text.overview.measure}
                value={measure}
                options={[
                  { value: "charged", text: text.overview.roubles },
                  { value: "tokens", text: text.overview.tokens },
                  { value: "requests", text: text.overview.requests },
                ]}
              />
            }
          />
          <Lines
            caption={text.overview.money}
            times={data?.times}
            by={data?.step ?? "day"}
            kind="money"
            series={moneySeries(data)}
            isLoading={state.isLoading}
          />
          <Rankings report={data} />
        </>
      )}
    </>
  );
}

function Totals({ report }: { report: Report | undefined }) {
  const { now, before } = report ?? {};
  const money = (name: "charged_rub" | "operator_cost_rub" | "margin_rub") =>
    now && <Money amount={now[name]} />;
  return (
    <>
      <Figures>
        <Figure
          isMain
          label={text.overview.charged}
          value={money("charged_rub")}
          change={
            now && before && <Change now={now.charged_rub} before={before.charged_rub} good="up" />
          }
        />
        <Figure
          label={text.overview.operatorCost}
          value={money("operator_cost_rub")}
          change={
            now &&
            before && <Change now={now.operator_cost_rub} before={before.operator_cost_rub} />
          }
        />
        <Figure
          label={text.overview.margin}
          value={money("margin_rub")}
          change={
            now && before && <Change now={now.margin_rub} before={before.margin_rub} good="up" />
          }
        />
        <Figure
          label={text.overview.requests}
          value={now && <Count value={now.requests} />}
          change={now && before && <Change now={now.requests} before={before.requests} good="up" />}
        />
      </Figures>
      <Figures>
        <Figure
          label={text.overview.tokens}
          value={now && <Count value={now.prompt_tokens + now.completion_tokens} />}
          change={
            now &&
            before && (
              <Change
                now={now.prompt_tokens + now.completion_tokens}
                before={before.prompt_tokens + before.completion_tokens}
                good="up"
              />
            )
          }
        />
        <Figure
          label={text.overview.failed}
          value={now && <Count value={now.failed} />}
          change={now && before && <Change now={now.failed} before={before.failed} good="down" />}
          note={now && now.requests > 0 && formats.percent(now.failed / now.requests)}
        />
        <CachedShare of={now} />
        <Latency label={text.overview.firstByte} report={report} name="first_byte_ms" />
        <Latency label={text.overview.duration} report={report} name="duration_ms" />
      </Figures>
      {now && !now.sample.is_all && (
        <p class="hint">{text.overview.sampled(formats.count(now.sample.requests))}</p>
      )}
    </>
  );
}

/** p50 as the figure, p95 below it. */
function Latency({
  label,
  report,
  name,
}: {
  label: string;
  report: Report | undefined;
  name: "first_byte_ms" | "duration_ms";
}) {
  const now = report?.now[name];
  const before = report?.before[name];
  return (
    <Figure
      label={label}
      value={report && <Duration ms={now?.p50} />}
      change={now && before && <Change now={now.p50} before={before.p50} good="down" />}
      note={now && text.overview.p95(formats.duration(now.p95))}
    />
  );
}

function chartOf(report: Report | undefined, of: Measure) {
  const series = (report?.series.models ?? []).map(
    ({ model, charged_rub, requests, tokens }): Series => ({
      name: model ?? text.overview.otherModels,
      values: { charged: charged_rub, requests, tokens }[of],
    }),
  );
  return {
    times: report?.times,
    by: report?.step ?? ("day" as const),
    kind: of === "charged" ? ("money" as const) : ("count" as const),
    series,
  };
}

function moneySeries(report: Report | undefined): readonly Series[] {
  if (report === undefined) return [];
  const { charged_rub, operator_cost_rub, margin_rub } = report.series;
  return [
    { name: text.overview.charged, values: charged_rub },
    { name: text.overview.operatorCost, values: operator_cost_rub },
    { name: text.overview.margin, values: margin_rub },
  ];
}

function Rankings({ report }: { report: Report | undefined }) {
  const { accounts, keys, models, providers } = report?.top ?? {};
  return (
    <div class="grid rankings">
      <Ranking
        caption={text.overview.topAccounts}
        rows={accounts?.map((figures) => ({
          name: figures.account,
          href: hrefOf(["accounts", figures.account]),
          figures,
        }))}
      />
      <Ranking
        caption={text.overview.topKeys}
        rows={keys?.map((figures) => ({
          name: figures.label ?? figures.key_id,
          href: hrefOf(["keys", figures.key_id]),
          figures,
        }))}
      />
      <Ranking
        caption={text.overview.topModels}
        rows={models?.map((figures) => ({
          name: figures.model,
          href: hrefOf(["requests"], { model: figures.model }),
          figures,
        }))}
      />
      <Ranking
        caption={text.overview.topProviders}
        rows={providers?.map((figures) => ({
          name: figures.provider ?? text.overview.noProvider,
          href: hrefOf(
            ["requests"],
            figures.provider === null ? { status: "failed" } : { provider: figures.provider },
          ),
          figures,
        }))}
      />
    </div>
  );
}

interface RankingRow {
  readonly name: string;
  readonly href: string;
  readonly figures: Pick<
    Report["now"],
    | "charged_rub"
    | "operator_cost_rub"
    | "requests"
    | "failed"
    | "prompt_tokens"
    | "cached_tokens"
    | "cache_saved_rub"
  >;
}

function Ranking({ caption, rows }: { caption: string; rows: readonly RankingRow[] | undefined }) {
  const columns: readonly Column<RankingRow>[] = [
    { id: "name", head: caption, value: ({ name }) => name },
    {
      id: "charged",
      head: text.overview.charged,
      kind: "money",
      value: ({ figures }) => figures.charged_rub,
      isSortable: true,
    },
    {
      id: "cost",
      head: text.overview.operatorCost,
      kind: "money",
      value: ({ figures }) => figures.operator_cost_rub,
      isSortable: true,
    },
    {
      id: "requests",
      head: text.overview.requests,
      kind: "count",
      value: ({ figures }) => figures.requests,
      isSortable: true,
    },
    {
      id: "failed",
      head: text.overview.failed,
      kind: "count",
      value: ({ figures }) => figures.failed,
      isSortable: true,
    },
    {
      id: "cached",
      head: text.overview.cached,
      value: ({ figures }) => shareOf(figures) ?? null,
    },
    {
      id: "saved",
      head: text.overview.cacheSaved,
      kind: "money",
      value: ({ figures }) => figures.cache_saved_rub,
      isSortable: true,
    },
  ];
  return (
    <Panel isFlush>
      <Table
        caption={caption}
        isCaptionHidden
        columns={columns}
        rows={rows}
        keyOf={({ href }) => href}
        hrefOf={({ href }) => href}
        narrow="scroll"
        canCopyCsv
      />
    </Panel>
  );
}
