import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ApiFailure } from "../api.ts";
import { Choice } from "../components/fields.tsx";
import { EmptyState, ErrorState, SkeletonBlock } from "../components/states.tsx";
import { Table, type Column } from "../components/table.tsx";
import { Name, visibleText } from "../components/text.tsx";
import { formats, words } from "../language.ts";
import { drawPlot, type Plot } from "./plot.ts";
import {
  largestSeries,
  shownChartValue,
  stepSums,
  sumOf,
  type ChartData,
  type ChartValue,
} from "./series.ts";

export interface ChartProps extends ChartData {
  /** What the chart shows. It is its heading, and the name of its table. */
  readonly caption: string;
  readonly failure?: ApiFailure | undefined;
  readonly onRetry?: () => void;
  readonly isLoading?: boolean;
  /** Beside the choice of chart or table, such as a switch of the unit. */
  readonly actions?: ComponentChildren;
}

/** Bars of each step, stacked by series, such as spend by day and model. */
export function StackedBars(props: ChartProps) {
  return <Chart {...props} isStacked />;
}

/** One line for each series, such as p50 and p95. The second is dashed. Null values leave a gap. */
export function Lines(props: ChartProps) {
  return <Chart {...props} isStacked={false} />;
}

/** A chart, or the table of the same figures. The values of the step under the pointer are shown above it. */
function Chart(props: ChartProps & { isStacked: boolean }) {
  const { caption, by, failure, actions } = props;
  const form = useSignal<"chart" | "table">("chart");
  const note = by === "day" ? words.chart.daysAreUtc : words.chart.hoursAreLocal(formats.timeZone);
  return (
    <figure class="box chart" aria-busy={props.isLoading === true}>
      <figcaption class="split panel-head">
        <div>
          <h2>{caption}</h2>
          <p>{note}</p>
        </div>
        <div class="row">
          {actions}
          <Choice
            label={`${words.chart.form}: ${caption}`}
            value={form}
            options={[
              { value: "chart", text: words.chart.chart },
              { value: "table", text: words.chart.table },
            ]}
          />
        </div>
      </figcaption>
      {props.times === undefined && failure ? (
        <ErrorState
          failure={failure}
          onRetry={props.onRetry}
          isRetrying={props.isLoading === true}
        />
      ) : (
        <ChartContent {...props} form={form.value} />
      )}
    </figure>
  );
}

function ChartContent(props: ChartProps & { isStacked: boolean; form: "chart" | "table" }) {
  const { times, series, kind, form } = props;
  if (times === undefined) {
    return (
      <div class="chart-content">
        <SkeletonBlock />
      </div>
    );
  }
  const isEmpty = series.every(({ values }) =>
    values.every((value) => value === null || Number(value) === 0),
  );
  if (isEmpty) {
    return (
      <div class="chart-content chart-empty">
        <EmptyState title={words.chart.empty} />
      </div>
    );
  }
  if (form === "table") return <ChartTable {...props} times={times} />;
  const shown = props.isStacked ? largestSeries(kind, series) : series;
  return <ChartPlot {...props} times={times} series={shown} />;
}

type Loaded = ChartProps & { readonly isStacked: boolean; readonly times: readonly string[] };

function ChartPlot(props: Loaded) {
  const { caption, times, by, kind, series, isStacked } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot>(undefined);
  const step = useSignal<number | undefined>(undefined);
  const shape = JSON.stringify([times, by, kind, series]);
  useLayoutEffect(() => {
    if (!host.current) return;
    const drawn = drawPlot(host.current, { data: { times, by, kind, series }, isStacked });
    plot.current = drawn;
    drawn.mark(step.peek());
    return () => drawn.destroy();
  }, [shape, isStacked]);
  const choose = (next: number | undefined): void => {
    step.value = next;
    plot.current?.mark(next);
  };
  const last = times.length - 1;
  const onKeyDown = (event: KeyboardEvent): void => {
    const at = step.value;
    const targets: Readonly<Record<string, number | undefined>> = {
      ArrowRight: Math.min((at ?? -1) + 1, last),
      ArrowLeft: Math.max((at ?? last + 1) - 1, 0),
      Home: 0,
      End: last,
      Escape: undefined,
    };
    if (!(event.key in targets)) return;
    event.preventDefault();
    choose(targets[event.key]);
  };
  const reading = readingOf(props, step.value);
  const isBrief = series.length <= BRIEF_SERIES_MAX;
  return (
    <div class={isBrief ? "chart-content chart-brief" : "chart-content"}>
      <div class="readout">
        <span class="muted readout-time">{reading.time}</span>
        {reading.total !== undefined && (
          <span class="readout-total">{shownChartValue(kind, reading.total)}</span>
        )}
      </div>
      <div
        ref={host}
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={words.chart.cursor(caption)}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={step.value ?? last}
        aria-valuetext={spoken(props, reading)}
        onKeyDown={onKeyDown}
        onPointerMove={(event) => choose(plot.current?.stepAt(event.clientX))}
        onPointerLeave={() => choose(undefined)}
        onBlur={() => choose(undefined)}
      />
      <ul class="chart-legend">
        {series.map(({ name }, at) => (
          <li key={at}>
            <span
              class={isStacked ? "swatch" : "swatch swatch-line"}
              style={{ "--series": `var(--series-${at + 1})` }}
            />
            <Name text={name} />
            <span class="legend-value one-line">
              {shownChartValue(kind, reading.values[at] ?? null)}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Up to this many series are named in one line with the readout. More of them are named in a column beside the plot. */
const BRIEF_SERIES_MAX = 2;

/** What a chart says of one step, or of all. */
interface Reading {
  readonly time: string;
  /** One for each series. */
  readonly values: readonly ChartValue[];
  /** The sum of a stack. Lines have none. */
  readonly total: ChartValue | undefined;
}

/** Without a step: sums of the whole span. Percentiles are no sums, so lines are read at their last known step. */
function readingOf(props: Loaded, chosen: number | undefined): Reading {
  const { times, by, kind, series, isStacked } = props;
  const step = chosen ?? (isStacked ? undefined : lastKnownStep(props));
  const time = step === undefined ? undefined : times[step];
  const values = series.map(({ values }) =>
    step === undefined ? sumOf(kind, values) : (values[step] ?? null),
  );
  return {
    time: time === undefined ? words.chart.wholeSpan : formats.step(Date.parse(time), by, "long"),
    values,
    total: isStacked ? sumOf(kind, values) : undefined,
  };
}

function lastKnownStep({ times, series }: Loaded): number | undefined {
  const step = times.findLastIndex((_, at) =>
    series.some(({ values }) => (values[at] ?? null) !== null),
  );
  return step < 0 ? undefined : step;
}

function spoken({ kind, series }: Loaded, { time, values, total }: Reading): string {
  return [
    time,
    ...(total === undefined ? [] : [`${words.total} ${shownChartValue(kind, total)}`]),
    ...series.map(({ name }, at) => `${name} ${shownChartValue(kind, values[at] ?? null)}`),
  ].join(", ");
}

interface Step {
  readonly time: string;
  readonly at: number;
  readonly total: ChartValue;
}

/** The figures of all series, the latest step first. */
function ChartTable({ caption, times, by, kind, series, isStacked }: Loaded) {
  const totals = stepSums(kind, series, times.length);
  const rows = times
    .map((time, at): Step => ({ time, at, total: totals[at] ?? null }))
    .toReversed();
  const columnKind = kind === "money" ? "exactMoney" : kind;
  const columns: readonly Column<Step>[] = [
    {
      id: "time",
      head: by === "day" ? words.chart.day : words.chart.hour,
      value: ({ time }) => (by === "day" ? time.slice(0, "2026-11-01".length) : time),
      cell: ({ time }) => formats.step(Date.parse(time), by, by === "day" ? "short" : "long"),
    },
    ...(isStacked && series.length > 1
      ? [
          {
            id: "total",
            head: words.total,
            kind: columnKind,
            value: ({ total }: Step) => total,
            isSortable: true,
          } as const,
        ]
      : []),
    ...series.map(
      ({ name, values }, index) =>
        ({
          id: `series ${index}`,
          head: visibleText(name),
          kind: columnKind,
          value: ({ at }: Step) => values[at] ?? null,
          isSortable: true,
        }) as const,
    ),
  ];
  return (
    <div class="chart-content chart-table">
      <Table
        caption={caption}
        isCaptionHidden
        columns={columns}
        rows={rows}
        keyOf={({ time }) => time}
        narrow="scroll"
        canCopyCsv
      />
    </div>
  );
}
