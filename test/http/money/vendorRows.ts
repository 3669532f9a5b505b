import type { ServiceTier } from "../../../src/contract/priceList.ts";

/**
 * Dollars for 1,000,000 tokens, as the page writes them, by the names of the config. `long`: of prompts above so many tokens,
 * or from so many on, as the page says it.
 */
export interface Prices {
  readonly short: string;
  readonly above?: number;
  readonly from?: number;
  readonly long?: string;
}

/** The interface of the provider that serves a model. */
export type Served = "chat" | "responses" | "anthropic" | "gemini" | "embeddings" | "geminiVectors";

/** The prices of one model, where they stand, and the day on which they stood there. */
export interface VendorRow {
  readonly model: string;
  readonly served: Served;
  readonly standard: Prices;
  readonly services?: { readonly [Name in ServiceTier]?: Prices };
  readonly source: string;
  readonly seen: string;
}

const TODAY = "2026-11-30";
const K272 = { above: 272_000 };
const K200 = { above: 200_000 };
const openaiModels = "https://developers.openai.com/api/docs/models";
const genaiPrices = "https://github.com/pydantic/genai-prices/blob/main/prices/providers";
const litellm = "https://github.com/BerriAI/litellm";
const tokenMeter = {
  source: "https://github.com/iyulab/TokenMeter/releases/tag/v0.17.0",
  seen: TODAY,
};
/** It says that the service tier priority is now called fast, and that both names are accepted. */
const fastMode = { source: "https://openai.com/es-ES/api-fast-mode/", seen: TODAY };
const claudePrices = {
  source: "https://platform.claude.com/docs/en/about-claude/pricing",
  seen: TODAY,
};
const xai = { source: "https://docs.x.ai/developers/pricing", seen: TODAY };
/** At its peak hours. */
const deepseek = { source: "https://api-docs.deepseek.com/quick_start/pricing", seen: TODAY };

const openai: readonly VendorRow[] = [
  {
    model: "gpt-6.2-sol",
    served: "responses",
    standard: {
      short: "input 2.00, cached_input 0.10, cache_write 2.50, output 10.00",
      ...K272,
      long: "input 4.00, cached_input 0.20, cache_write 5.00, output 15.00",
    },
    services: {
      batch: {
        short: "input 1.00, cached_input 0.05, cache_write 1.25, output 5.00",
        ...K272,
        long: "input 2.00, cached_input 0.10, cache_write 2.50, output 7.50",
      },
      priority: {
        short: "input 4.00, cached_input 0.20, cache_write 5.00, output 20.00",
        ...K272,
        long: "input 8.00, cached_input 0.40, cache_write 10.00, output 30.00",
      },
    },
    source: `${openaiModels}/gpt-6.2-sol`,
    seen: TODAY,
  },
  {
    model: "gpt-6.2-astra",
    served: "chat",
    standard: {
      short: "input 8.00, cached_input 0.40, cache_write 10.00, output 40.00",
      ...K272,
      long: "input 16.00, cached_input 0.80, cache_write 20.00, output 60.00",
    },
    ...tokenMeter,
  },
  {
    model: "gpt-6-astra",
    served: "responses",
    standard: {
      short: "input 10, cached_input 1, cache_write 12.50, output 50",
      ...K272,
      long: "input 20, cached_input 2, cache_write 25, output 75",
    },
    services: {
      flex: {
        short: "input 5, cached_input 0.5, cache_write 6.25, output 25",
        ...K272,
        long: "input 10, cached_input 1, cache_write 12.5, output 37.5",
      },
    },
    source: `${litellm}/discussions/39633`,
    seen: TODAY,
  },
  {
    model: "gpt-6-luna",
    served: "chat",
    standard: { short: "input 0.10, cached_input 0.01, cache_write 0.125, output 0.50" },
    source: "https://github.com/TheKrush/PromptFuel/releases/tag/v1.0.21",
    seen: "2026-09-23",
  },
  {
    model: "gpt-5.6-sol",
    served: "chat",
    standard: {
      short: "input 5, cached_input 0.5, cache_write 6.25, output 30",
      ...K272,
      long: "input 10, cached_input 1, cache_write 12.5, output 45",
    },
    services: {
      flex: { short: "input 2.5, cached_input 0.25, cache_write 3.125, output 15" },
      priority: { short: "input 10, cached_input 1, cache_write 12.5, output 60" },
    },
    source: `${litellm}/blob/main/model_prices_and_context_window.json`,
    seen: "2026-07-24",
  },
  {
    model: "gpt-5.6-terra",
    served: "chat",
    standard: { short: "input 2.00, cached_input 0.20, output 12.00" },
    services: { priority: { short: "input 4.00, cached_input 0.40, output 24.00" } },
    ...fastMode,
  },
  {
    model: "gpt-5.6-luna",
    served: "responses",
    standard: {
      short: "input 0.20, cached_input 0.02, cache_write 0.25, output 1.20",
      ...K272,
      long: "input 0.40, cached_input 0.04, cache_write 0.50, output 1.80",
    },
    source: `${openaiModels}/gpt-5.6-luna`,
    seen: TODAY,
  },
  {
    model: "gpt-5.4",
    served: "chat",
    standard: {
      short: "input 2.5, cached_input 0.25, output 15",
      ...K272,
      long: "input 5, cached_input 0.5, output 22.5",
    },
    services: { priority: { short: "input 5.00, cached_input 0.500, output 30.00" } },
    source: `${genaiPrices}/openai.yml`,
    seen: "2026-03-06",
  },
  {
    model: "gpt-5.4-mini",
    served: "responses",
    standard: { short: "input 0.75, cached_input 0.075, output 4.5" },
    services: { priority: { short: "input 1.50, cached_input 0.150, output 9.00" } },
    ...fastMode,
  },
  {
    model: "gpt-4.1",
    served: "chat",
    standard: { short: "input 2, cached_input 0.5, output 8" },
    services: { priority: { short: "input 3.50, cached_input 0.875, output 14.00" } },
    ...fastMode,
  },
  {
    model: "gpt-5-pro",
    served: "responses",
    standard: { short: "input 15, output 120" },
    source: `${genaiPrices}/openai.yml`,
    seen: "2025-11-13",
  },
  {
    model: "text-embedding-3-large",
    served: "embeddings",
    standard: { short: "input 0.13" },
    source: `${openaiModels}/text-embedding-3-large`,
    seen: TODAY,
  },
];

const anthropic: readonly VendorRow[] = [
  {
    model: "claude-haiku-5-5",
    served: "anthropic",
    standard: {
      short: "input 0.10, cached_input 0.01, cache_write 0.125, cache_write_1h 0.20, output 0.50",
      above: 100_000,
      long: "input 0.50, cached_input 0.05, cache_write 0.625, cache_write_1h 1.00, output 2.50",
    },
    source: "https://platform.claude.com/docs/en/models/haiku-5-5/overview",
    seen: TODAY,
  },
  {
    model: "claude-sonnet-5-5",
    served: "anthropic",
    standard: {
      short: "input 2, cached_input 0.10, cache_write 2.50, cache_write_1h 4, output 10",
    },
    source: "https://github.com/kurofune/claudit/releases/tag/v1.9.2",
    seen: "2026-10-24",
  },
  {
    model: "claude-opus-5",
    served: "anthropic",
    standard: {
      short: "input 5, cached_input 0.50, cache_write 6.25, cache_write_1h 10, output 25",
    },
    services: {
      fast: { short: "input 10, cached_input 1, cache_write 12.50, cache_write_1h 20, output 50" },
      batch: { short: "input 2.50, output 12.50" },
    },
    ...claudePrices,
  },
  {
    model: "claude-fable-5-1",
    served: "anthropic",
    standard: {
      short: "input 10, cached_input 0.25, cache_write 12.50, cache_write_1h 20, output 50",
    },
    ...claudePrices,
  },
  {
    model: "claude-sonnet-4-5",
    served: "anthropic",
    standard: {
      short: "input 3, cached_input 0.30, cache_write 3.75, cache_write_1h 6, output 15",
      ...K200,
      long: "input 6, cached_input 0.60, cache_write 7.50, cache_write_1h 12, output 22.5",
    },
    source: `${genaiPrices}/anthropic.yml`,
    seen: "2026-07-29",
  },
  {
    model: "claude-haiku-3",
    served: "anthropic",
    standard: {
      short: "input 0.25, cached_input 0.03, cache_write 0.30, cache_write_1h 0.50, output 1.25",
    },
    source: "https://platform.claude.com/docs/en/docs/about-claude/pricing",
    seen: TODAY,
  },
];

const google: readonly VendorRow[] = [
  {
    model: "gemini-3.1-pro-preview",
    served: "gemini",
    standard: {
      short: "input 2, cached_input 0.2, output 12",
      ...K200,
      long: "input 4, cached_input 0.4, output 18",
    },
    source: `${genaiPrices}/google.yml`,
    seen: "2026-02-23",
  },
  {
    model: "gemini-2.5-pro",
    served: "gemini",
    standard: {
      short: "input 1.25, cached_input 0.125, output 10",
      ...K200,
      long: "input 2.5, cached_input 0.25, output 15",
    },
    source: `${genaiPrices}/google.yml`,
    seen: "2025-10-31",
  },
  {
    model: "gemini-flash-1.5",
    served: "gemini",
    standard: {
      short: "input 0.075, cached_input 0.01875, output 0.3",
      above: 128_000,
      long: "input 0.15, cached_input 0.0375, output 0.6",
    },
    source: `${genaiPrices}/google.yml`,
    seen: "2025-07-05",
  },
  {
    model: "gemini-4-neon",
    served: "gemini",
    standard: { short: "input 3.00, cached_input 0.15, output 15.00" },
    ...tokenMeter,
  },
  {
    model: "gemini-embedding-001",
    served: "geminiVectors",
    standard: { short: "input 0.15" },
    source: "https://www.getmaxim.ai/bifrost/llm-cost-calculator/provider/gemini.md",
    seen: TODAY,
  },
];

/** The page says "Long context ≥ 200k tokens". */
const FROM_200K = { from: 200_000 };
const others: readonly VendorRow[] = [
  {
    model: "grok-4.7",
    served: "responses",
    standard: {
      short: "input 2.00, cached_input 0.50, output 6.00",
      ...FROM_200K,
      long: "input 4.00, cached_input 1.00, output 12.00",
    },
    ...xai,
  },
  {
    model: "grok-4.5",
    served: "chat",
    standard: {
      short: "input 2.00, cached_input 0.30, output 6.00",
      ...FROM_200K,
      long: "input 4.00, cached_input 0.60, output 12.00",
    },
    ...xai,
  },
  {
    model: "grok-build-0.1",
    served: "chat",
    standard: {
      short: "input 1.00, cached_input 0.20, output 2.00",
      ...FROM_200K,
      long: "input 2.00, cached_input 0.40, output 4.00",
    },
    ...xai,
  },
  {
    model: "deepseek-flash",
    served: "chat",
    standard: { short: "input 0.3, cached_input 0.006, output 1.2" },
    ...deepseek,
  },
  {
    model: "deepseek-v4-pro",
    served: "chat",
    standard: { short: "input 1.32, cached_input 0.044, output 3.96" },
    ...deepseek,
  },
  {
    model: "deepseek-v4-pro-in-june",
    served: "chat",
    standard: { short: "input 0.435, cached_input 0.003625, output 0.87" },
    source: `${genaiPrices}/deepseek.yml`,
    seen: "2026-06-02",
  },
  {
    model: "mistral-large-2512",
    served: "chat",
    standard: { short: "input 0.5, cached_input 0.05, output 1.5" },
    source: `${genaiPrices}/mistral.yml`,
    seen: "2026-06-09",
  },
  {
    model: "mistral-medium-3.5",
    served: "chat",
    standard: { short: "input 1.50, output 7.50" },
    source: "https://github.com/braintrustdata/braintrust-proxy/issues/802",
    seen: TODAY,
  },
  {
    model: "mistral-embed",
    served: "embeddings",
    standard: { short: "input 0.1" },
    source: `${genaiPrices}/mistral.yml`,
    seen: "2026-06-09",
  },
];

/** Rows of the vendors' price pages. */
export const vendorRows: readonly VendorRow[] = [...openai, ...anthropic, ...google, ...others];
