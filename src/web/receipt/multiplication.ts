import type { Receipt } from "../../contract/account/receipt.ts";
import { billedCount, figures, ofEachFigure, type Figure } from "../../contract/figures.ts";
import { formatRoubles, parseRoubles } from "../../lib/money.ts";

/** One line of the multiplication: `count` times `price` is `amount`. */
export interface MultiplicationLine {
  readonly figure: Figure;
  readonly count: number;
  /** Roubles for as many as the figure's unit says. */
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

/** Writes out how the cost of a request came about. A figure without usage has no line. The input always has one. */
export function multiplicationOf(receipt: PricedReceipt): Multiplication {
  const usage = ofEachFigure(({ field }) => receipt[field] ?? 0);
  let sum = 0n;
  const lines: MultiplicationLine[] = [];
  for (const figure of figures) {
    const count = billedCount(usage, figure.name);
    if (count === 0 && figure.name !== "promptTokens") continue;
    const price = receipt[figure.price.key] ?? 0;
    const amount = BigInt(count) * BigInt(price) * figure.unit.nanoOfOne;
    sum += amount;
    lines.push({ figure, count, priceRub: priceOf(price), amountRub: formatRoubles(amount) });
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
