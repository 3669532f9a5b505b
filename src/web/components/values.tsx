import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { RequestStatus } from "../../contract/account/requestStatus.ts";
import { parseRoubles } from "../../lib/money.ts";
import type { MoneyStyle } from "../formats.ts";
import { formats, words } from "../language.ts";

export interface MoneyProps {
  /** Roubles as a decimal text, as the API sends them. Null is shown as a dash. */
  readonly amount: string | null | undefined;
  /** Every digit, to the nano-rouble. Otherwise kopecks, with the exact amount as tooltip. */
  readonly isExact?: boolean;
  /** For exact amounts in a column: room for so many places, so that the points align. */
  readonly places?: number;
}

/** An amount as the language writes it. It is never a floating-point number. */
export function Money({ amount, isExact = false, places = 0 }: MoneyProps) {
  if (amount === null || amount === undefined) return <None />;
  const style: MoneyStyle = isExact ? "exact" : "short";
  const text = formats.money(amount, style);
  const exact = isExact ? text : formats.money(amount, "exact");
  return (
    <span class="money" {...(text !== exact && { title: exact })}>
      {formats.moneyParts(amount, style).map(({ type, value }) => {
        if (type === "currency") return <span class="muted">{value}</span>;
        if (type === "decimal") return <span class="money-fraction">{value}</span>;
        if (type !== "fraction") return value;
        const missing = "0".repeat(Math.max(places - value.length, 0));
        return (
          <span class="money-fraction">
            {value}
            {missing && (
              <span class="places" aria-hidden="true">
                {missing}
              </span>
            )}
          </span>
        );
      })}
    </span>
  );
}

/** The number of decimal places that the longest of these amounts needs. */
export function placesOf(amounts: readonly (string | null | undefined)[]): number {
  return amounts.reduce((most, amount) => {
    const point = amount?.indexOf(".") ?? -1;
    return Math.max(most, point < 0 ? 0 : (amount?.length ?? 0) - point - 1);
  }, 0);
}

/** A count with the separators of the language. */
export function Count({ value }: { value: number | bigint | null | undefined }) {
  if (value === null || value === undefined) return <None />;
  return <span class="one-line">{formats.count(value)}</span>;
}

/** A time span in milliseconds. */
export function Duration({ ms }: { ms: number | null | undefined }) {
  if (ms === null || ms === undefined) return <None />;
  return <span class="one-line">{formats.duration(ms)}</span>;
}

export interface TimeProps {
  /** As the API sends it: ISO 8601. Null is shown as a dash. */
  readonly at: string | null | undefined;
  /** `relative` is "5 minutes ago". The other form is the tooltip. The default is `absolute`. */
  readonly form?: "absolute" | "short" | "relative" | "date";
}

/** The present to the nearest half minute. Relative times follow it. */
const now = signal(Date.now());
const NOW_STEP_MS = 30_000;
setInterval(() => (now.value = Date.now()), NOW_STEP_MS);

/** A moment in the time zone of the browser. */
export function Time({ at, form = "absolute" }: TimeProps) {
  if (at === null || at === undefined) return <None />;
  const atMs = Date.parse(at);
  if (Number.isNaN(atMs)) return <>{at}</>;
  const absolute = `${formats.dateTime(atMs)} (${formats.timeZone})`;
  const isRelative = form === "relative";
  return (
    <time
      class="one-line"
      dateTime={at}
      title={isRelative ? absolute : formats.relative(atMs, now.value)}
    >
      {form === "absolute" && formats.dateTime(atMs)}
      {form === "short" && formats.shortTime(atMs)}
      {form === "date" && formats.date(atMs)}
      {isRelative && formats.relative(atMs, now.value)}
    </time>
  );
}

/** The sign for a value that does not exist. */
export function None() {
  return <span class="muted">{words.none}</span>;
}

/** The share by which `amount` differs from `before`, as 0.124; undefined if there is nothing to compare with. */
export function shareOfChange(
  amount: string | number | null,
  before: string | number | null,
): number | undefined {
  const [now, then] = [scaled(amount), scaled(before)];
  if (now === undefined || then === undefined || then === 0n) return undefined;
  const thousandths = ((now - then) * 1000n) / (then < 0n ? -then : then);
  return Number(thousandths) / 1000;
}

function scaled(value: string | number | null): bigint | undefined {
  if (value === null) return undefined;
  return typeof value === "number" ? BigInt(Math.round(value)) : parseRoubles(value);
}

export type TagTone = "neutral" | "info" | "good" | "warning" | "bad";

/** A short state with a dot of its colour. The text alone must tell it. */
export function Tag({
  tone = "neutral",
  children,
}: {
  tone?: TagTone;
  children: ComponentChildren;
}) {
  return <span class={`tag tag-${tone}`}>{children}</span>;
}

const tones: Readonly<Record<RequestStatus, TagTone>> = {
  running: "info",
  done: "good",
  failed: "bad",
  cancelled: "warning",
  interrupted: "bad",
};

/** How a request ended. */
export function Status({ status }: { status: RequestStatus }) {
  return <Tag tone={tones[status]}>{words.status[status]}</Tag>;
}
