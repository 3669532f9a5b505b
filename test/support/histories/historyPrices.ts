import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import type { ReportedTokens } from "./moneyProvider.ts";

/** What a token and a search cost, in nano-roubles. */
interface ModelPrices {
  readonly input: bigint;
  readonly cached: bigint;
  readonly cacheWrite: bigint;
  readonly hour: bigint;
  readonly output: bigint;
  readonly search: bigint;
  /** The prices of the tier of prompts of LONG_PROMPT tokens and more. */
  readonly long?: Omit<ModelPrices, "long">;
}

const LONG_PROMPT = 25;

/**
 * The models of the histories. Cache writes are the most expensive input. `claude` is of kind anthropic. The route of
 * `rescued` always fails, so that its fallback `small` answers; each of the two has prices above those of the other.
 */
export const prices = {
  small: {
    input: 3n,
    cached: 1n,
    cacheWrite: 5n,
    hour: 5n,
    output: 7n,
    search: 0n,
    long: { input: 4n, cached: 2n, cacheWrite: 6n, hour: 6n, output: 5n, search: 0n },
  },
  claude: {
    input: 4n,
    cached: 1n,
    cacheWrite: 5n,
    hour: 8n,
    output: 6n,
    search: 1000n,
    long: { input: 4n, cached: 1n, cacheWrite: 5n, hour: 9n, output: 8n, search: 1000n },
  },
  rescued: { input: 4n, cached: 2n, cacheWrite: 4n, hour: 4n, output: 9n, search: 0n },
  vectors: { input: 3n, cached: 3n, cacheWrite: 3n, hour: 3n, output: 0n, search: 0n },
} as const satisfies Record<string, ModelPrices>;
export type ModelName = keyof typeof prices;
/** Those of `small` for accounts with the plan. The tier for long prompts is that of the model, or the higher price. */
export const planned: ModelPrices = {
  ...prices.small,
  input: 2n,
  output: 9n,
  long: { ...prices.small.long, output: 9n },
};
export const PLAN = "sale";
/** The name at its provider of the model that always fails. */
export const BROKEN = "broken";

export const MAX_TOKENS = 20;
export const LEAST_TOKENS = 4;
/** The context bounds every prompt, so that its hold does not hang on the length of a body. */
export const PROMPT_TOKENS_MAX = 50;

/** What the cheapest request of all costs: an input of the embedding model without text, of 16 tokens at most. */
export const LEAST_COST = 16n * prices.vectors.input;

/** The gateway that the histories are about: requests do not wait for money, and clients that leave get no grace. */
export function historyConfig(providerUrl: string): GatewayConfig {
  const { claude, vectors } = prices;
  return {
    providers: {
      local: providerUrl,
      claude: { base_url: providerUrl, kind: "anthropic" },
    },
    models: [
      { id: "small", routes: [{ provider: "local" }], settings: chatSettings("small") },
      {
        id: "claude",
        routes: [{ provider: "claude", responses: false }],
        settings: {
          ...chatSettings("claude"),
          rub_cache_write_1h_per_1m: Number(claude.hour),
          // The unit is 1,000 nano-roubles for a search.
          rub_web_search_per_1k: Number(claude.search / 1000n),
        },
      },
      {
        id: "rescued",
        routes: [{ provider: "local", model: BROKEN }],
        settings: { ...chatSettings("rescued"), fallbacks: ["small"] },
      },
      {
        id: "vectors",
        routes: [{ provider: "local" }],
        settings: {
          kind: "embedding",
          rub_input_per_1m: Number(vectors.input),
          context_tokens: PROMPT_TOKENS_MAX,
        },
      },
    ],
    tables: `
      [[plans]]
      id = "${PLAN}"
      [[plans.rules]]
      models = "sm*"
      rub_input_per_1m = ${planned.input}
      rub_output_per_1m = ${planned.output}
    `,
    sections: {
      billing: { hold_wait: "0s", disconnect_grace: "0s", min_output_tokens: LEAST_TOKENS },
    },
  };
}

function chatSettings(name: ModelName) {
  const { input, cached, cacheWrite, output, ...more }: ModelPrices = prices[name];
  const { long } = more;
  return {
    ...(long && {
      tiers: [
        {
          from_prompt_tokens: LONG_PROMPT,
          rub_input_per_1m: Number(long.input),
          rub_cached_input_per_1m: Number(long.cached),
          rub_cache_write_per_1m: Number(long.cacheWrite),
          ...(name === "claude" && { rub_cache_write_1h_per_1m: Number(long.hour) }),
          rub_output_per_1m: Number(long.output),
        },
      ],
    }),
    rub_input_per_1m: Number(input),
    rub_cached_input_per_1m: Number(cached),
    rub_cache_write_per_1m: Number(cacheWrite),
    rub_output_per_1m: Number(output),
    max_output_tokens: MAX_TOKENS,
    context_tokens: PROMPT_TOKENS_MAX,
  };
}

/** By the contract: cached parts over the prompt are cut, first the cached ones, then the written. */
export function historyCost(
  { prompt, cached, cacheWrite, hour, completion, searches }: ReportedTokens,
  { long, ...short }: ModelPrices,
): bigint {
  const price = long && prompt >= LONG_PROMPT ? long : short;
  const cachedTokens = Math.min(cached, prompt);
  const writtenTokens = Math.min(cacheWrite, prompt - cachedTokens);
  return (
    BigInt(prompt - cachedTokens - writtenTokens) * price.input +
    BigInt(cachedTokens) * price.cached +
    BigInt(writtenTokens - hour) * price.cacheWrite +
    BigInt(hour) * price.hour +
    BigInt(completion) * price.output +
    BigInt(searches) * price.search
  );
}
