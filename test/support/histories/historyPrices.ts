import type { Price } from "../../../src/config/schema.ts";
import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import { SAID, type ReportedTokens } from "./moneyProvider.ts";

/** What a token costs in the histories, in nano-roubles; cache writes are the most expensive input. */
export const prices = { input: 3n, cached: 1n, cacheWrite: 5n, output: 7n };
/** A price of nothing. */
export const freePrice: Price = {
  input: 0n,
  output: 0n,
  cachedInput: 0n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
  webSearch: 0n,
};
export const MAX_TOKENS = 20;
export const LEAST_TOKENS = 4;
/** The context bounds every prompt, so that its hold does not hang on the length of a body. */
export const PROMPT_TOKENS_MAX = 50;

const BYTES_PER_TOKEN = 4;

/** The gateway that the histories are about: requests do not wait for money, and clients that leave get no grace. */
export function historyConfig(providerUrl: string): GatewayConfig {
  return {
    providers: { local: providerUrl },
    models: [
      {
        id: "small",
        routes: [{ provider: "local" }],
        settings: {
          rub_input_per_1m: Number(prices.input),
          rub_cached_input_per_1m: Number(prices.cached),
          rub_cache_write_per_1m: Number(prices.cacheWrite),
          rub_output_per_1m: Number(prices.output),
          max_output_tokens: MAX_TOKENS,
          context_tokens: PROMPT_TOKENS_MAX,
        },
      },
    ],
    sections: {
      billing: { hold_wait: "0s", disconnect_grace: "0s", min_output_tokens: LEAST_TOKENS },
    },
  };
}

/** By the contract: cached parts over the prompt are cut, first the cached ones, then the written. */
export function historyCost({ prompt, cached, cacheWrite, completion }: ReportedTokens): bigint {
  const cachedTokens = Math.min(cached, prompt);
  const writtenTokens = Math.min(cacheWrite, prompt - cachedTokens);
  return (
    BigInt(prompt - cachedTokens - writtenTokens) * prices.input +
    BigInt(cachedTokens) * prices.cached +
    BigInt(writtenTokens) * prices.cacheWrite +
    BigInt(completion) * prices.output
  );
}

/** By the contract: a quarter of the bytes of the prompt, and of what the provider said; never above the hold. */
export function estimateOf(words: string, tokensHeld: number): bigint {
  const prompt = Math.min(Math.ceil(words.length / BYTES_PER_TOKEN), PROMPT_TOKENS_MAX);
  const completion = Math.min(Math.ceil(SAID.length / BYTES_PER_TOKEN), tokensHeld);
  return BigInt(prompt) * prices.input + BigInt(completion) * prices.output;
}
