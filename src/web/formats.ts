import { parseRoubles } from "../lib/money.ts";

/** A piece of a formatted amount, so that a page can show the symbol and the fraction in a quieter way. */
export type MoneyPart = Pick<Intl.NumberFormatPart, "type" | "value">;

/** How a language writes figures. Times are in the browser's time zone, days of reports in UTC. */
export interface Formats {
  readonly locale: string;
  /** The name of the time zone in which times are shown. */
  readonly timeZone: string;
  /** `amount` is a decimal text of roubles. The parts joined are the text. */
  moneyParts(amount: string, style: MoneyStyle): readonly MoneyPart[];
  money(amount: string, style?: MoneyStyle): string;
  /** A tick of a chart's axis, such as `₽12K`. It is not exact. */
  axisMoney(roubles: number): string;
  axisCount(count: number): string;
  count(value: number | bigint): string;
  /** `share` is 0.5 for 50 %. */
  percent(share: number): string;
  /** `840ms`, `1.24s`, `2m 5s`. */
  duration(milliseconds: number): string;
  /** Date and time to the second. */
  dateTime(atMs: number): string;
  date(atMs: number): string;
  /** Time of day and short date, for dense tables. */
  shortTime(atMs: number): string;
  /** The start of a step of a report, short for an axis or in full. Days are UTC. */
  step(atMs: number, by: "hour" | "day", style: "short" | "long"): string;
  /** `5 minutes ago`, `in 3 days`. */
  relative(atMs: number, nowMs: number): string;
}

/**
 * `short`: kopecks, or two digits of a smaller amount. `exact`: every digit, to the nano-rouble. A number: every digit,
 * and at least so many places.
 */
export type MoneyStyle = "short" | "exact" | number;

const KOPECK_PLACES = 2;
const NANO_PLACES = 9;
const KOPECK_NANO = 10_000_000n;

/** Makes the formats of a language tag such as `en-GB`. */
export function createFormats(locale: string, timeZone?: string): Formats {
  const zone = timeZone === undefined ? {} : { timeZone };
  const money = (digits: Intl.NumberFormatOptions) =>
    new Intl.NumberFormat(locale, {
      style: "currency",
      currency: "RUB",
      currencyDisplay: "narrowSymbol",
      ...digits,
    });
  const places = (minimumFractionDigits: number, maximumFractionDigits: number) =>
    money({ minimumFractionDigits, maximumFractionDigits });
  const moneyFormats = {
    short: places(KOPECK_PLACES, KOPECK_PLACES),
    small: money({ maximumSignificantDigits: 2 }),
    exact: places(KOPECK_PLACES, NANO_PLACES),
  };
  const moneyFormat = (amount: string, style: MoneyStyle): Intl.NumberFormat => {
    if (typeof style === "number") return places(style, NANO_PLACES);
    if (style === "exact") return moneyFormats.exact;
    const nano = parseRoubles(amount) ?? 0n;
    const isSmall = nano !== 0n && nano < KOPECK_NANO && nano > -KOPECK_NANO;
    return isSmall ? moneyFormats.small : moneyFormats.short;
  };
  const compact = { notation: "compact", maximumSignificantDigits: 3 } as const;
  const axisMoney = money(compact);
  const axisCount = new Intl.NumberFormat(locale, compact);
  const counts = new Intl.NumberFormat(locale);
  const percents = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 1 });
  const unit = (name: string, maximumFractionDigits: number) =>
    new Intl.NumberFormat(locale, {
      style: "unit",
      unit: name,
      unitDisplay: "narrow",
      maximumFractionDigits,
    });
  const milliseconds = unit("millisecond", 0);
  const seconds = unit("second", 2);
  const wholeSeconds = unit("second", 0);
  const minutes = unit("minute", 0);
  const times = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat(locale, { ...zone, ...options });
  const dateTime = times({ dateStyle: "medium", timeStyle: "medium" });
  const date = times({ dateStyle: "medium" });
  const clock = { hour: "2-digit", minute: "2-digit" } as const;
  const shortTime = times({ day: "numeric", month: "short", ...clock, second: "2-digit" });
  const steps = {
    hour: { short: times(clock), long: times({ day: "numeric", month: "long", ...clock }) },
    day: {
      short: times({ day: "numeric", month: "short", timeZone: "UTC" }),
      long: times({ weekday: "long", day: "numeric", month: "long", timeZone: "UTC" }),
    },
  };
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });

  return {
    locale,
    timeZone: dateTime.resolvedOptions().timeZone,
    // TypeScript knows decimal texts only as literals.
    moneyParts: (amount, style) => moneyFormat(amount, style).formatToParts(amount as `${number}`),
    money: (amount, style = "short") => moneyFormat(amount, style).format(amount as `${number}`),
    axisMoney: (roubles) => axisMoney.format(roubles),
    axisCount: (count) => axisCount.format(count),
    count: (value) => counts.format(value),
    percent: (share) => percents.format(share),
    duration(ms) {
      if (ms < 1000) return milliseconds.format(ms);
      if (ms < 60_000) return seconds.format(ms / 1000);
      const rounded = Math.round(ms / 1000);
      return `${minutes.format(Math.floor(rounded / 60))} ${wholeSeconds.format(rounded % 60)}`;
    },
    dateTime: (atMs) => dateTime.format(atMs),
    date: (atMs) => date.format(atMs),
    shortTime: (atMs) => shortTime.format(atMs),
    step: (atMs, by, style) => steps[by][style].format(atMs),
    relative(atMs, nowMs) {
      const [amount, unit] = largestUnit(atMs - nowMs);
      return relative.format(amount, unit);
    },
  };
}

const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
] as const;

function largestUnit(ms: number): [number, Intl.RelativeTimeFormatUnit] {
  for (const [unit, unitMs] of units) {
    if (Math.abs(ms) >= unitMs) return [Math.trunc(ms / unitMs), unit];
  }
  return [Math.trunc(ms / 1000), "second"];
}
