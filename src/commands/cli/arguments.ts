import { InvalidArgumentError } from "commander";
import { parseDurationMs } from "../../config/values.ts";
import { KEY_HEAD } from "../../auth/apiKey.ts";
import { DAY_MS, midnightOf } from "../../lib/time.ts";
import { formatRoubles, NANO_ROUBLES_MAX, parseRoubles } from "../../lib/money.ts";
import { hasUnprintable } from "../../lib/printable.ts";
import { CommandFailure } from "./print.ts";

/**
 * Readers of what people type. Each returns the value or throws InvalidArgumentError, whose message
 * says what is expected; the caller names the argument. Amounts are nano-roubles, times milliseconds
 * since 1970.
 */

const ACCOUNT_NAME = /^[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}$/;
/** A date, and a time behind it if there is one. */
const MOMENT = /^([^T]*)(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;
const LABEL_CHARS_MAX = 128;
const REF_CHARS_MAX = 128;
const NOTE_CHARS_MAX = 512;
const MODEL_CHARS_MAX = 256;
const MODELS_MAX = 100;
const LISTED_MAX = 100_000;
const EXPIRY_MS_MAX = 36_500 * DAY_MS;
const GRACE_DAYS_MAX = 365;

/** Of a new account: 1 to 64 letters, digits and `. _ - @`, the first a letter, a digit or `_`. */
export function accountName(text: string): string {
  if (ACCOUNT_NAME.test(text)) return text;
  throw new InvalidArgumentError(
    "Use 1 to 64 letters, digits, dots, hyphens, underscores and @. The first character is a letter, a digit or an underscore.",
  );
}

/** More than nothing. */
export function amount(text: string): bigint {
  const nano = roubles(text);
  if (nano <= 0n) throw new InvalidArgumentError("The amount must be more than 0.");
  return nano;
}

/** 0 or more; `none` is 0. */
export function overdraft(text: string): bigint {
  const nano = text === "none" ? 0n : roubles(text);
  if (nano < 0n) throw new InvalidArgumentError("The overdraft must be 0 or more.");
  return nano;
}

/** Who booked it under which name: unique, and not in the form that charges use. */
export function reference(text: string): string {
  if (text.startsWith("req:")) {
    throw new InvalidArgumentError("The prefix req: is reserved for charges. Use another ref.");
  }
  return printable(text, REF_CHARS_MAX);
}

export function label(text: string): string {
  return printable(text, LABEL_CHARS_MAX);
}

export function note(text: string): string {
  return printable(text, NOTE_CHARS_MAX);
}

/** What `none` is read as: Commander makes an empty text of null. */
export const none = Symbol("none");

/** The same reader, which also takes `none`. */
export function orNone<Value>(
  read: (text: string) => Value,
): (text: string) => Value | typeof none {
  return (text) => (text === "none" ? none : read(text));
}

/** What the help says of an argument that {@link keyId} reads. */
export const KEY_ID_DESCRIPTION = "key id such as key_01jd...; `tollgate keys list` shows them";

/** The id of a key. One that was taken for its id must not come into any message. */
export function keyId(text: string): string {
  if (!text.startsWith(KEY_HEAD)) return text;
  throw new CommandFailure(
    "this is a key, not a key id: `tollgate keys list` shows the id of each key",
    { status: 2 },
  );
}

/** A reader of whole numbers from `least` to `most`. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new InvalidArgumentError(`Write a whole number from ${least} to ${most}.`);
  };
}

/** How many lines of a list to show. */
export const listLimit = wholeNumber(1, LISTED_MAX);

/** `7d`: so long before `nowMs`; or a date. */
export function pastTime(text: string, nowMs: number): number {
  const durationMs = parseDurationMs(text);
  if (durationMs !== undefined && durationMs <= nowMs) return nowMs - durationMs;
  return dateMs(text, "Write a duration such as 7d or 24h");
}

/** `30d`: so long after `nowMs`; or a date. Always later than `nowMs`, and not by more than a century. */
export function expiryTime(text: string, nowMs: number): number {
  const durationMs = parseDurationMs(text);
  const atMs =
    durationMs === undefined
      ? dateMs(text, "Write a duration such as 30d or 12h")
      : nowMs + durationMs;
  if (atMs <= nowMs) throw new InvalidArgumentError("The time must be in the future.");
  if (atMs - nowMs > EXPIRY_MS_MAX) {
    throw new InvalidArgumentError(
      "The time is more than 100 years away. Omit --expires for a key that never expires.",
    );
  }
  return atMs;
}

/** `24h`: how long a key that was replaced still works; `0s`: not at all. In milliseconds. */
export function graceDuration(text: string): number {
  const durationMs = parseDurationMs(text);
  if (durationMs !== undefined && durationMs <= GRACE_DAYS_MAX * DAY_MS) return durationMs;
  throw new InvalidArgumentError(
    `Write a duration such as 24h or 7d, from 0s to ${GRACE_DAYS_MAX}d.`,
  );
}

/** Names of models, where `*` stands for any text, parted by commas. */
export function modelPatterns(text: string): readonly string[] {
  const patterns = text.split(",").map((pattern) => pattern.trim());
  if (patterns.includes("")) {
    throw new InvalidArgumentError("Separate model names with commas, such as gpt-5-mini,demo-*.");
  }
  if (patterns.length > MODELS_MAX) {
    throw new InvalidArgumentError(
      `A key can list at most ${MODELS_MAX} models. Use * to match several models.`,
    );
  }
  return [...new Set(patterns.map((pattern) => printable(pattern, MODEL_CHARS_MAX)))];
}

function roubles(text: string): bigint {
  const nano = parseRoubles(text);
  if (nano !== undefined) return nano;
  if (/^-?\d+\.\d{10,}$/.test(text)) {
    throw new InvalidArgumentError("Roubles have at most 9 digits after the point.");
  }
  if (/^-?0\d+(?:\.\d+)?$/.test(text)) {
    throw new InvalidArgumentError("Write roubles without leading zeros.");
  }
  if (/^-?\d+(?:\.\d+)?$/.test(text)) {
    throw new InvalidArgumentError(`The maximum is ${formatRoubles(NANO_ROUBLES_MAX)} roubles.`);
  }
  throw new InvalidArgumentError("Write roubles as a plain decimal, such as 100 or 12.5.");
}

function printable(text: string, charsMax: number): string {
  if (text.length === 0 || text.length > charsMax || hasUnprintable(text)) {
    throw new InvalidArgumentError(
      `Write 1 to ${charsMax} printable characters, without control characters, line breaks or invisible characters.`,
    );
  }
  return text;
}

/** A date is its first moment in UTC; a date with a time says its zone. */
function dateMs(text: string, otherForm: string): number {
  const [, date = ""] = MOMENT.exec(text) ?? [];
  // By the standard a date alone is one of UTC: https://tc39.es/ecma262/#sec-date-time-string-format
  const atMs = midnightOf(date) === undefined ? Number.NaN : Date.parse(text);
  if (Number.isFinite(atMs)) return atMs;
  throw new InvalidArgumentError(
    `${otherForm}, a date such as 2026-12-31 (00:00 UTC), or a time such as 2026-12-31T18:00:00Z.`,
  );
}
