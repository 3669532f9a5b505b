import { ANSWER_COST_FACTOR, JsonCost } from "./untrustedJson.ts";

/** Longer texts are parsed with JSON.parse: exact parsing takes fifteen times as long. */
const EXACT_CHARACTERS_MAX = 256 * 1024;
/** Only a number with 16 digits or with an exponent can lose digits. */
const MAY_LOSE_DIGITS = /\d{16}|\d[eE]/;

/** Parses untrusted JSON. Throws SyntaxError and CostlyJsonError like `parseUntrusted`. */
export type ReadJson = (text: string) => unknown;

/**
 * Like `parseUntrusted` with the limits of an answer, but a number that a double cannot hold becomes an object that
 * JSON.stringify writes with all its digits: models pass ids of twenty digits to tools. Very long and very deep texts
 * lose these digits.
 */
export function parseExactly(text: string): unknown {
  return exactReader()(text);
}

/** Makes a reader for all texts of one request. Their length and their cost are limited together. */
export function exactReader(): ReadJson {
  let charactersLeft = EXACT_CHARACTERS_MAX;
  const cost = new JsonCost(ANSWER_COST_FACTOR);
  return (text) => {
    cost.add(text);
    if (text.length > charactersLeft || !MAY_LOSE_DIGITS.test(text)) {
      return JSON.parse(text) as unknown;
    }
    charactersLeft -= text.length;
    return parseKeepingDigits(text);
  };
}

function parseKeepingDigits(text: string): unknown {
  try {
    return parseWith(text, keepDigits);
  } catch (error) {
    // Bun 1.4.5 overflows the stack at some thousands of levels, but only with a reviver.
    if (error instanceof RangeError) return JSON.parse(text);
    throw error;
  }
}

type Revive = (key: string, value: unknown, context: { readonly source?: string }) => unknown;

/** https://tc39.es/proposal-json-parse-with-source/, not yet in the compiler's types. */
const {
  parse: parseWith,
  rawJSON,
  isRawJSON,
} = JSON as unknown as {
  readonly parse: (text: string, revive: Revive) => unknown;
  readonly rawJSON: (text: string) => unknown;
  readonly isRawJSON: (value: unknown) => boolean;
};

/** Whether a value that was read exactly is a number. */
export function isNumber(value: unknown): boolean {
  return typeof value === "number" || isRawJSON(value);
}

function keepDigits(...[, value, { source }]: Parameters<Revive>): unknown {
  if (typeof value !== "number" || source === undefined) return value;
  return Number.isSafeInteger(value) || String(value) === source ? value : rawJSON(source);
}
