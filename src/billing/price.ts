import type { OperatorPrice, Price } from "../config/schema.ts";
import type { Usage } from "../contract/usage.ts";

/** The exact cost in nano-roubles; there is nothing to round. */
export function costOf(usage: Usage, price: Price): bigint {
  const plain = usage.promptTokens - usage.cachedTokens - usage.cacheWriteTokens;
  return (
    BigInt(plain) * price.input +
    BigInt(usage.cachedTokens) * price.cachedInput +
    BigInt(usage.cacheWriteTokens) * price.cacheWrite +
    BigInt(usage.completionTokens) * price.output
  );
}

/** What the operator pays for the same tokens by a route's own two prices. */
export function operatorCostOf(usage: Usage, price: OperatorPrice): bigint {
  return BigInt(usage.promptTokens) * price.input + BigInt(usage.completionTokens) * price.output;
}
