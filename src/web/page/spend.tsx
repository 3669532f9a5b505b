import { figures } from "../../contract/figures.ts";
import { useSignalEffect } from "@preact/signals";
import { StackedBars } from "../charts/chart.tsx";
import { Choice, SpanChoice } from "../components/fields.tsx";
import { Columns, Panel, ViewHead } from "../components/frame.tsx";
import { CopyButton } from "../components/buttons.tsx";
import { Table, tableCsv, type Column } from "../components/table.tsx";
import { formats, words as shared } from "../language.ts";
import { inWords } from "./failures.ts";
import type { Holding } from "./holding.ts";
import {
  kindOf,
  modelSums,
  spendingSeries,
  stepSums,
  sumsOf,
  units,
  type UsageRow,
  type UsageSums,
} from "./spending.ts";
import { text } from "./text.ts";

const words = text.spend;

/** What the account spent: the chart, the table of the same figures, and the sums of each model. */
export function Spend({ holding }: { holding: Holding }) {
  useSignalEffect(holding.showMoves);
  const { data } = holding.spending;
  return (
    <>
      <ViewHead
        title={text.views.spend}
        text={words.intro}
        actions={
          <>
            {data.value && <CopyRows rows={data.value.rows} />}
            <SpanChoice value={holding.span} />
          </>
        }
      />
      <Columns isWideFirst>
        <SpendChart holding={holding} />
        <StepTable holding={holding} />
      </Columns>
      <ModelTable holding={holding} />
    </>
  );
}

/** The chart of the account's use, stacked by model. */
export function SpendChart({ holding }: { holding: Holding }) {
  const { spending, unit } = holding;
  const data = spending.data.value;
  const failure = spending.failure.value;
  return (
    <StackedBars
      caption={words.captions[unit.value]}
      times={data?.times}
      by={data?.by ?? "day"}
      kind={kindOf(unit.value)}
      series={data ? spendingSeries(data, unit.value) : []}
      failure={failure && inWords(failure)}
      isLoading={spending.isLoading.value}
      onRetry={spending.reload}
      actions={
        <>
          <Choice
            label={words.unit}
            value={unit}
            options={units.map((value) => ({ value, text: words.units[value] }))}
          />
        </>
      }
    />
  );
}

/** The figures of the chart, one row for each step. */
function StepTable({ holding: { spending } }: { holding: Holding }) {
  const data = spending.data.value;
  const failure = spending.failure.value;
  const by = data?.by ?? "day";
  const columns: readonly Column<UsageSums>[] = [
    {
      id: "time",
      head: by === "day" ? shared.chart.day : shared.chart.hour,
      kind: "time",
      value: ({ name }) => (by === "day" ? name.slice(0, "2026-11-01".length) : name),
      cell: ({ name }) => formats.step(Date.parse(name), by, by === "day" ? "short" : "long"),
    },
    { id: "requests", head: words.requests, kind: "count", value: ({ requests }) => requests },
    {
      id: "tokens",
      head: words.tokens,
      kind: "count",
      value: ({ prompt, completion }) => prompt + completion,
    },
    { id: "cost", head: words.cost, kind: "money", value: ({ costRub }) => costRub },
  ];
  const caption = by === "day" ? words.byDay : words.byHour;
  return (
    <Panel title={caption} isFlush>
      <div class="step-table">
        <Table
          caption={caption}
          isCaptionHidden
          columns={columns}
          rows={data && stepSums(data)}
          keyOf={({ name }) => name}
          failure={failure && inWords(failure)}
          isLoading={spending.isLoading.value}
          onRetry={spending.reload}
          narrow="scroll"
          canCopyCsv
        />
      </div>
    </Panel>
  );
}

function ModelTable({ holding: { spending } }: { holding: Holding }) {
  const data = spending.data.value;
  const failure = spending.failure.value;
  const total = data && sumsOf("", data.rows);
  const columns: readonly Column<UsageSums>[] = [
    { id: "model", head: words.model, value: ({ name }) => name, isSortable: true },
    count("requests", words.requests, ({ requests }) => requests),
    count("failed", words.failed, ({ failed }) => failed),
    count("prompt", words.prompt, ({ prompt }) => prompt),
    count("cached", words.cached, ({ cached }) => cached),
    count("completion", words.completion, ({ completion }) => completion),
    {
      id: "cost",
      head: words.cost,
      kind: "exactMoney",
      value: ({ costRub }) => costRub,
      isSortable: true,
    },
    {
      id: "refunded",
      head: words.refunded,
      kind: "exactMoney",
      value: ({ refundedRub }) => refundedRub,
    },
  ];
  return (
    <Panel title={words.byModel} text={shared.spans[data?.span ?? "30d"]} isFlush>
      <Table
        caption={words.byModel}
        isCaptionHidden
        columns={columns}
        rows={data && modelSums(data)}
        keyOf={({ name }) => name}
        failure={failure && inWords(failure)}
        isLoading={spending.isLoading.value}
        onRetry={spending.reload}
        canCopyCsv
        {...(total && {
          foot: {
            model: shared.total,
            requests: total.requests,
            failed: total.failed,
            prompt: total.prompt,
            cached: total.cached,
            completion: total.completion,
            cost: total.costRub,
            refunded: total.refundedRub,
          },
        })}
      />
    </Panel>
  );
}

function count(id: string, head: string, value: (sums: UsageSums) => number): Column<UsageSums> {
  return { id, head, kind: "count", value, isSortable: true };
}

/** Copies the report as the API sent it: a row for each step and model. */
function CopyRows({ rows }: { rows: readonly UsageRow[] }) {
  const columns: readonly Column<UsageRow>[] = (
    [
      "requests",
      "failed",
      ...figures.filter(({ name }) => name !== "cacheWrite1hTokens").map(({ field }) => field),
      "cost_rub",
      "refunded_rub",
    ] as const
  ).map((id) => ({ id, head: id, value: (row) => row[id] ?? 0 }));
  const step: Column<UsageRow> = {
    id: "step",
    head: rows[0]?.hour === undefined ? "day" : "hour",
    value: ({ day, hour }) => day ?? hour ?? null,
  };
  const model: Column<UsageRow> = {
    id: "model",
    head: "model",
    value: (row) => row.model ?? null,
  };
  return (
    <CopyButton
      text={() => tableCsv([step, model, ...columns], rows)}
      action={words.copyAll}
      label={text.views.spend}
      done={shared.copiedRows(rows.length)}
      tone="plain"
    />
  );
}
