import type { Receipt } from "../../contract/account/receipt.ts";
import { formatRoubles, NANO_ROUBLES_PER_SEARCH_UNIT, parseRoubles } from "../../lib/money.ts";

/** The kinds of usage that have a price of their own. */
export type PricedKind = "input" | "cached" | "cacheWrite" | "cacheWrite1h" | "output" | "searches";

/** One line of the multiplication: `count` times `price` is `amount`. */
export interface MultiplicationLine {
  readonly kind: PricedKind;
  readonly count: number;
  /** Roubles for 1,000,000 tokens, or for 1,000 searches. */
  readonly priceRub: string;
  readonly amountRub: string;
}

/** How a charge came about. The lines plus the difference are the cost, to the nano-rouble. */
export interface Multiplication {
  readonly lines: readonly MultiplicationLine[];
  /** What was charged beyond the lines; negative if less was charged, such as for a failed request. `"0"` as a rule. */
  readonly differenceRub: string;
  readonly costRub: string;
  /** The cost minus what was refunded. */
  readonly netRub: string;
}

/** A price in the API is in thousandths of a rouble. */
const NANO_PER_THOUSANDTH = 1_000_000n;

/** The fields of a receipt that make its cost. */
export type PricedReceipt = Omit<Receipt, "attempts">;

/** Writes out how the cost of a request came about. A kind without usage has no line, but one of input always stands. */
export function multiplicationOf(receipt: PricedReceipt): Multiplication {
  const { cached_tokens: cached, cache_write_tokens: written } = receipt;
  const written1h = receipt.cache_write_1h_tokens;
  const kinds: readonly (readonly [PricedKind, count: number, price: number, each: bigint])[] = [
    ["input", receipt.prompt_tokens - cached - written, receipt.rub_input_per_1m, 1n],
    ["cached", cached, receipt.rub_cached_input_per_1m, 1n],
    ["cacheWrite", written - written1h, receipt.rub_cache_write_per_1m, 1n],
    ["cacheWrite1h", written1h, receipt.rub_cache_write_1h_per_1m, 1n],
    ["output", receipt.completion_tokens, receipt.rub_output_per_1m, 1n],
    ["searches", receipt.web_searches, receipt.rub_web_search_per_1k, NANO_ROUBLES_PER_SEARCH_UNIT],
  ];
  let sum = 0n;
  const lines: MultiplicationLine[] = [];
  for (const [kind, count, price, nanoOfOne] of kinds) {
    if (count === 0 && kind !== "input") continue;
    // One thousandth of a rouble for 1,000,000 tokens is one nano-rouble for each.
    const amount = BigInt(count) * BigInt(price) * nanoOfOne;
    sum += amount;
    const priceRub = priceOf(price);
    lines.push({ kind, count, priceRub, amountRub: formatRoubles(amount) });
  }
  const cost = nanoOf(receipt.cost_rub);
  return {
    lines,
    differenceRub: formatRoubles(cost - sum),
    costRub: receipt.cost_rub,
    netRub: formatRoubles(cost - nanoOf(receipt.refunded_rub)),
  };
}

/** A price of the API, in thousandths of a rouble, as roubles. */
export function priceOf(thousandths: number): string {
  return formatRoubles(BigInt(thousandths) * NANO_PER_THOUSANDTH);
}

/** Every amount of the API is a decimal text. */
function nanoOf(amount: string): bigint {
  return parseRoubles(amount) ?? 0n;
}
