import { formatRoubles } from "../lib/money.ts";

const TOKENS = 1_000_000n;

/** Roubles for 1,000,000 tokens, as people compare prices; `price` is nano-roubles for one token. */
export function pricePerMillion(price: bigint): string {
  return formatRoubles(price * TOKENS);
}
