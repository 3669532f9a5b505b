import { ANSWER_COST_FACTOR, JsonCost } from "./untrustedJson.ts";

/** What is beyond this is read plainly: the exact way takes fifteen times as long. */
const EXACT_CHARACTERS_MAX = 256 * 1024;
/** Only a number that is written with so many digits, or with an exponent, can lose any. */
const MAY_LOSE_DIGITS = /\d{16}|\d[eE]/;

/** Reads a stranger's JSON text. Throws SyntaxError and CostlyJsonError as parseUntrusted does. */
export type ReadJson = (text: string) => unknown;

/**
 * As parseUntrusted, but a number that a double cannot hold is written again by JSON.stringify with all its
 * digits: models give ids of twenty digits to the tools that they call. Such a number reads as an object, not
 * as a number. Very long texts, and very deep ones, lose these digits. For answers: it has their room.
 */
export function parseExactly(text: string): unknown {
  return exactReader()(text);
}

/**
 * Reads the texts of one request so, until they are very long together. What they cost is counted together, and has
 * the room of an answer.
 */
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
    // Bun 1.4.5 runs out of stack over some thousands of levels, which it can read without a function.
    if (error instanceof RangeError) return JSON.parse(text);
    throw error;
  }
}

type Revive = (key: string, value: unknown, context: { readonly source?: string }) => unknown;

/** https://tc39.es/proposal-json-parse-with-source/, which the compiler's types do not know yet. */
const { parse: parseWith, rawJSON } = JSON as unknown as {
  readonly parse: (text: string, revive: Revive) => unknown;
  readonly rawJSON: (text: string) => unknown;
};

function keepDigits(...[, value, { source }]: Parameters<Revive>): unknown {
  if (typeof value !== "number" || source === undefined) return value;
  return Number.isSafeInteger(value) || String(value) === source ? value : rawJSON(source);
}
