import type { ComponentChildren } from "preact";
import { formats, words } from "../language.ts";
import { Skeleton } from "./states.tsx";
import { shareOfChange } from "./values.tsx";

/** A row of figures, parted by thin lines. Its children are `Figure`. */
export function Figures({ children }: { children: ComponentChildren }) {
  return <dl class="box figures">{children}</dl>;
}

export interface FigureProps {
  readonly label: ComponentChildren;
  /** `Money`, `Count` or `Duration`. Undefined while it loads. */
  readonly value: ComponentChildren | undefined;
  /** The change against the span before; undefined: none is shown. */
  readonly change?: ComponentChildren;
  /** A second line, such as `of which cached`. */
  readonly note?: ComponentChildren;
  /** The one figure that the view is about. */
  readonly isMain?: boolean;
}

/** One figure with its label. */
export function Figure({ label, value, change, note, isMain = false }: FigureProps) {
  return (
    <div class={isMain ? "figure figure-main" : "figure"}>
      <dt class="hint">{label}</dt>
      <dd class="figure-value">
        <span class="figure-number">{value ?? <Skeleton characters={6} />}</span>
      </dd>
      {(change !== undefined || note !== undefined) && (
        <dd class="row hint figure-note">
          {value === undefined ? <Skeleton characters={10} /> : change}
          {note}
        </dd>
      )}
    </div>
  );
}

export interface ChangeProps {
  readonly now: string | number | null;
  readonly before: string | number | null;
  /** Which way is good. Without it a change has no colour. */
  readonly good?: "up" | "down";
}

/** The change of a figure against the span before. Texts are decimal roubles, numbers are whole. */
export function Change({ now, before, good }: ChangeProps) {
  const share = shareOfChange(now, before);
  if (share === undefined) {
    if (now === null || now === before || Number(now) === 0) return <NoChange />;
    return (
      <span class="muted one-line" title={words.change.fresh}>
        {words.change.freshText}
      </span>
    );
  }
  if (share === 0) return <NoChange />;
  const direction = share > 0 ? "up" : "down";
  const tone = good === undefined ? "" : direction === good ? " change-good" : " change-bad";
  const size = formats.percent(Math.abs(share));
  return (
    <span class={`muted one-line${tone}`} title={words.change[direction](size)}>
      <span aria-hidden="true">
        {share > 0 ? "▲" : "▼"} {size}
      </span>
      <span class="unseen">{words.change[direction](size)}</span>
    </span>
  );
}

function NoChange() {
  return (
    <span class="muted one-line" title={words.change.none}>
      {words.change.noneText}
    </span>
  );
}

export interface MeterProps {
  readonly label: string;
  /** Decimal roubles, or whole numbers. */
  readonly used: string | number;
  readonly limit: string | number;
  /** What is used and what the limit is, in words: `Money` or text. */
  readonly usedText: string;
  readonly limitText: string;
}

/** A bar that says how much of a limit is used, such as a budget. It changes its colour near the end. */
export function Meter({ label, used, limit, usedText, limitText }: MeterProps) {
  const limitNumber = Number(limit);
  const share = limitNumber > 0 ? Math.min(Math.max(Number(used) / limitNumber, 0), 1) : 1;
  const tone = share >= 1 ? "full" : share >= NEARLY_FULL ? "near" : "free";
  return (
    <div>
      <div class="split meter-head">
        <span>{label}</span>
        <span class="muted">{words.meter.of(usedText, limitText)}</span>
      </div>
      <div
        class={`meter-bar meter-${tone}`}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
        aria-valuetext={words.meter.of(usedText, limitText)}
      >
        <span style={{ width: `${share * 100}%` }} />
      </div>
    </div>
  );
}

const NEARLY_FULL = 0.85;
