import { parseDurationMs } from "../config/values.ts";
import { KEY_HEAD } from "../auth/apiKey.ts";
import { DAY_MS, midnightOf } from "../lib/clock.ts";
import { formatRoubles, NANO_ROUBLES_MAX, parseRoubles } from "../lib/money.ts";
import { hasUnprintable } from "../lib/printable.ts";

/**
 * A value that the operator gave is not valid. The message tells the expected form. `field` is the name of the value in
 * a body of the console, if it is known.
 */
export class InvalidValue extends Error {
  override readonly name = "InvalidValue";
  readonly field: string | undefined;

  constructor(message: string, options: ErrorOptions & { readonly field?: string } = {}) {
    super(message, options);
    this.field = options.field;
  }
}

/** Reads the text of a field. The InvalidValue that `read` throws gets the field's name. */
export function readField<Value>(
  field: string,
  text: string,
  read: (text: string) => Value,
): Value {
  try {
    return read(text);
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error;
    throw new InvalidValue(error.message, { cause: error, field });
  }
}

/** Returns a reader that also reads `none`, as null. */
export function orNone<Value>(
  read: (text: string, nowMs: number) => Value,
): (text: string, nowMs: number) => Value | null {
  return (text, nowMs) => (text === "none" ? null : read(text, nowMs));
}

// Each reader below returns the value of a text, or throws InvalidValue. Amounts are nano-roubles, times are milliseconds
// since 1970.

const ACCOUNT_NAME = /^[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}$/;
/** A date with an optional time. */
const DATE_TIME = /^([^T]*)(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;
const LABEL_CHARS_MAX = 128;
const REF_CHARS_MAX = 128;
const NOTE_CHARS_MAX = 512;
const ACTOR_CHARS_MAX = 64;
const MODEL_CHARS_MAX = 256;
const MODELS_MAX = 100;
const LISTED_MAX = 100_000;
const EXPIRY_MS_MAX = 36_500 * DAY_MS;
const GRACE_DAYS_MAX = 365;

/** The name of a new account. */
export function accountName(text: string): string {
  if (ACCOUNT_NAME.test(text)) return text;
  throw new InvalidValue(
    "Use 1 to 64 letters, digits, dots, hyphens, underscores and @. The first character is a letter, a digit or an underscore.",
  );
}

/** An amount above 0. */
export function amount(text: string): bigint {
  const nano = roubles(text);
  if (nano <= 0n) throw new InvalidValue("The amount must be more than 0.");
  return nano;
}

/** An overdraft: 0 or more; `none` is 0. */
export function overdraft(text: string): bigint {
  const nano = text === "none" ? 0n : roubles(text);
  if (nano < 0n) throw new InvalidValue("The overdraft must be 0 or more.");
  return nano;
}

/** The balance below which an account is low: 0 or more. */
export function lowBalance(text: string): bigint {
  const nano = roubles(text);
  if (nano < 0n) throw new InvalidValue("The threshold must be 0 or more.");
  return nano;
}

/** A limit for the cost of requests: 0 or more. */
export function cost(text: string): bigint {
  const nano = roubles(text);
  if (nano < 0n) throw new InvalidValue("The cost must be 0 or more.");
  return nano;
}

/** Reserved prefixes of a ref, each with what uses it. */
const RESERVED_REFS = [
  ["req:", "charges"],
  ["voucher:", "vouchers"],
] as const;

/** The ref of a ledger entry. */
export function reference(text: string): string {
  for (const [prefix, use] of RESERVED_REFS) {
    if (!text.startsWith(prefix)) continue;
    throw new InvalidValue(`The prefix ${prefix} is reserved for ${use}. Use another ref.`);
  }
  return printable(text, REF_CHARS_MAX);
}

export function label(text: string): string {
  return printable(text, LABEL_CHARS_MAX);
}

export function note(text: string): string {
  return printable(text, NOTE_CHARS_MAX);
}

/** The name of the person for whom a command makes a change. */
export function actorName(text: string): string {
  return printable(text, ACTOR_CHARS_MAX);
}

/** The id of a key. A key that is given instead of its id is secret, so no message repeats it. */
export function keyId(text: string): string {
  if (!text.startsWith(KEY_HEAD)) return text;
  throw new InvalidValue(
    "this is a key, not a key id: `tollgate keys list` shows the id of each key",
  );
}

/** Returns a reader of whole numbers from `least` to `most`. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new InvalidValue(`Write a whole number from ${least} to ${most}.`);
  };
}

/** The maximum number of rows of a list. */
export const listLimit = wholeNumber(1, LISTED_MAX);

/** A past time: `7d` is that long before `nowMs`; or a date. */
export function pastTime(text: string, nowMs: number): number {
  const durationMs = parseDurationMs(text);
  if (durationMs !== undefined && durationMs <= nowMs) return nowMs - durationMs;
  return dateMs(text, "Write a duration such as 7d or 24h");
}

/** A time of expiry: `30d` is that long after `nowMs`; or a date. At most 100 years after `nowMs`. */
export function expiryTime(text: string, nowMs: number): number {
  const durationMs = parseDurationMs(text);
  const atMs =
    durationMs === undefined
      ? dateMs(text, "Write a duration such as 30d or 12h")
      : nowMs + durationMs;
  if (atMs <= nowMs) throw new InvalidValue("The time must be in the future.");
  if (atMs - nowMs > EXPIRY_MS_MAX) {
    throw new InvalidValue(
      "The time is more than 100 years away. Omit --expires for one that never expires.",
    );
  }
  return atMs;
}

/** How long a replaced key still works, such as `24h`, in milliseconds. */
export function graceDuration(text: string): number {
  const durationMs = parseDurationMs(text);
  if (durationMs !== undefined && durationMs <= GRACE_DAYS_MAX * DAY_MS) return durationMs;
  throw new InvalidValue(`Write a duration such as 24h or 7d, from 0s to ${GRACE_DAYS_MAX}d.`);
}

/** Names of models, separated by commas. `*` matches any text. */
export function modelPatterns(text: string): readonly string[] {
  const patterns = text.split(",").map((pattern) => pattern.trim());
  if (patterns.includes("")) {
    throw new InvalidValue("Separate model names with commas, such as gpt-5-mini,demo-*.");
  }
  if (patterns.length > MODELS_MAX) {
    throw new InvalidValue(`List at most ${MODELS_MAX} models. Use * to match several models.`);
  }
  return [...new Set(patterns.map((pattern) => printable(pattern, MODEL_CHARS_MAX)))];
}

function roubles(text: string): bigint {
  const nano = parseRoubles(text);
  if (nano !== undefined) return nano;
  if (/^-?\d+\.\d{10,}$/.test(text)) {
    throw new InvalidValue("Roubles have at most 9 digits after the point.");
  }
  if (/^-?[1-9]\d*(?:\.\d+)?$/.test(text)) {
    throw new InvalidValue(`The maximum is ${formatRoubles(NANO_ROUBLES_MAX)} roubles.`);
  }
  throw new InvalidValue("Write roubles as a plain decimal, such as 100 or 12.5.");
}

function printable(text: string, charsMax: number): string {
  if (text.length === 0 || text.length > charsMax || hasUnprintable(text)) {
    throw new InvalidValue(
      `Write 1 to ${charsMax} printable characters, without control characters, line breaks or invisible characters.`,
    );
  }
  return text;
}

/** A date means 00:00 UTC. A time needs a time zone. */
function dateMs(text: string, otherForm: string): number {
  const [, date = ""] = DATE_TIME.exec(text) ?? [];
  // The standard reads a date without a time as UTC: https://tc39.es/ecma262/#sec-date-time-string-format
  const atMs = midnightOf(date) === undefined ? Number.NaN : Date.parse(text);
  if (Number.isFinite(atMs)) return atMs;
  throw new InvalidValue(
    `${otherForm}, a date such as 2026-12-31 (00:00 UTC), or a time such as 2026-12-31T18:00:00Z.`,
  );
}
