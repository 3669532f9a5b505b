import uPlot from "uplot";
import { formats } from "../language.ts";
import type { ChartData, ValueKind } from "./series.ts";

/** A drawn chart. */
export interface Plot {
  /** The step at a place in the window; undefined outside. */
  stepAt(clientX: number): number | undefined;
  /** Marks a step; undefined: none. */
  mark(step: number | undefined): void;
  destroy(): void;
}

export interface PlotOptions {
  readonly data: ChartData & { readonly times: readonly string[] };
  readonly isStacked: boolean;
}

const X_LABEL_GAP_PX = 14;
const AXIS_GAP_PX = 8;
const BAR_SHARE = 0.78;
const BAR_PX_MAX = 56;
const LINE_PX = 2;
/** A little more than the largest value. */
const Y_ROOM = 1.06;

/**
 * Draws a chart into `host`, and again when the size of `host`, the colour scheme or the density of the screen changes.
 * The x axis counts the steps, so neither time zones nor summer time move a bar.
 */
export function drawPlot(host: HTMLElement, { data, isStacked }: PlotOptions): Plot {
  const { times, series } = data;
  const steps = times.length;
  const colour = (name: string): string => getComputedStyle(host).getPropertyValue(name).trim();
  const font = (): string => {
    const { fontSize, fontFamily } = getComputedStyle(host);
    return `${fontSize} ${fontFamily}`;
  };
  const drawn = isStacked ? stacked(data) : lines(data);
  const paint = series.map((_, at) => () => colour(`--series-${at + 1}`));
  const styles: uPlot.Series[] = isStacked
    ? // The tallest bar is drawn first: the others cover it.
      paint.toReversed().map((fill) => ({
        fill,
        stroke: () => colour("--surface"),
        width: 1 / devicePixelRatio,
        paths: uPlot.paths.bars!({ size: [BAR_SHARE, BAR_PX_MAX] }),
        points: { show: false },
      }))
    : paint.map((stroke, at) => ({
        stroke,
        width: LINE_PX,
        // The second line differs by more than its colour.
        dash: at === 1 ? [6, 4] : [],
        points: { show: steps < 2, size: 6 },
      }));

  const axis = { stroke: () => colour("--muted"), font: font(), ticks: { show: false } } as const;
  const plot = new uPlot(
    {
      width: host.clientWidth,
      height: host.clientHeight,
      padding: [AXIS_GAP_PX, 0, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: [-0.5, steps - 0.5] },
        y: { range: (_plot, min, max) => yRange(min, max, data.kind) },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          gap: AXIS_GAP_PX,
          size: (): number => Number.parseFloat(font()) + 2 * AXIS_GAP_PX,
          splits: (plot) => {
            const labels = times.map((_, at) => stepLabel(data, at));
            const width = plot.bbox.width / devicePixelRatio || plot.width;
            return labelledSteps(steps, width, widest(plot, labels, font()));
          },
          values: (_plot, splits) => splits.map((at) => stepLabel(data, at)),
        },
        {
          ...axis,
          grid: { stroke: () => colour("--line"), width: 1 },
          gap: AXIS_GAP_PX,
          size: (plot, values) => widest(plot, values, font()) + 2 * AXIS_GAP_PX,
          space: 44,
          incrs: data.kind === "money" ? moneySteps : wholeSteps,
          values: (_plot, splits) => splits.map((value) => tickLabel(data.kind, value)),
        },
      ],
      series: [{}, ...styles],
    },
    [Array.from({ length: steps }, (_, at) => at), ...drawn],
    host,
  );

  const marker = document.createElement("div");
  marker.className = "plot-marker";
  marker.hidden = true;
  plot.under.append(marker);
  let marked: number | undefined;
  const mark = (step: number | undefined): void => {
    marked = step;
    marker.hidden = step === undefined;
    if (step === undefined) return;
    const stepPx = plot.over.clientWidth / steps;
    marker.style.left = `${step * stepPx}px`;
    marker.style.width = `${stepPx}px`;
  };
  const redraw = (): void => plot.redraw(false);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", redraw);
  const sizes = new ResizeObserver(() => {
    const [width, height] = [host.clientWidth, host.clientHeight];
    if (width === 0 || (width === plot.width && height === plot.height)) return;
    plot.setSize({ width, height });
    mark(marked);
  });
  sizes.observe(host);

  return {
    stepAt(clientX) {
      const { left, width } = plot.over.getBoundingClientRect();
      const step = Math.floor(((clientX - left) / width) * steps);
      return step >= 0 && step < steps ? step : undefined;
    },
    mark,
    destroy() {
      sizes.disconnect();
      scheme.removeEventListener("change", redraw);
      plot.destroy();
    },
  };
}

/** Sums from the first series on, the largest sum first. Only for drawing: figures are shown from their exact values. */
function stacked({ series, times = [] }: ChartData): number[][] {
  let below = times.map(() => 0);
  const sums = series.map(({ values }) => {
    below = below.map((sum, at) => sum + Number(values[at] ?? 0));
    return below;
  });
  return sums.toReversed();
}

function lines({ series }: ChartData): (number | null)[][] {
  return series.map(({ values }) => values.map((value) => (value === null ? null : Number(value))));
}

const mantissas = [1, 2, 5];
const powers = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at).flatMap((power) =>
    mantissas.map((mantissa) => Number(`${mantissa}e${power}`)),
  );
const moneySteps = powers(-9, 12);
const wholeSteps = powers(0, 15);

/** The ends of the y axis, which has the zero. Counts have no part of one. */
function yRange(min: number | null, max: number | null, kind: ValueKind): [number, number] {
  const [low, high] = [Math.min(min ?? 0, 0) * Y_ROOM, Math.max(max ?? 0, 0) * Y_ROOM];
  if (low === high) return [0, 1];
  return [low, kind === "money" ? high : Math.max(high, 2)];
}

/** Steps with a label, so far apart that the labels do not touch, and so far from the end that they are not cut off. */
function labelledSteps(steps: number, widthPx: number, labelPx: number): number[] {
  const stepPx = widthPx / steps;
  const every = Math.max(Math.ceil((labelPx + X_LABEL_GAP_PX) / stepPx), 1);
  const fromEnd = Math.max(Math.ceil(labelPx / 2 / stepPx - 0.5), 0);
  const found: number[] = [];
  for (let at = steps - 1 - fromEnd; at >= 0; at -= every) found.unshift(at);
  return found;
}

function stepLabel({ times = [], by }: ChartData, at: number): string {
  const time = times[at];
  return time === undefined ? "" : formats.step(Date.parse(time), by, "short");
}

function tickLabel(kind: ValueKind, value: number): string {
  if (kind === "money") return formats.axisMoney(value);
  return kind === "duration" ? formats.duration(value) : formats.axisCount(value);
}

/** CSS pixels of the widest label. */
function widest({ ctx }: uPlot, labels: readonly string[] | null, font: string): number {
  ctx.save();
  ctx.font = font;
  const widths = (labels ?? []).map((label) => ctx.measureText(label).width);
  ctx.restore();
  return Math.ceil(Math.max(0, ...widths));
}
