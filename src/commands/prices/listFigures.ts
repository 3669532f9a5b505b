import { byPrice, type Figure, type PriceName } from "../../contract/figures.ts";
import type { DollarList, DollarPrices } from "../../config/dollarPrices.ts";
import { ofEachService } from "../../config/dollarPrices.ts";
import type { ProviderKind } from "../../config/schema.ts";

/** How a route is served. The kind is undefined if the config could not be read. */
export interface Served {
  readonly kind: ProviderKind | undefined;
  readonly responses: boolean;
}

interface ListedFigure {
  /** The fields of LiteLLM's list with dollars for one. Suffixes name the length of the prompt and the service tier. */
  readonly litellm: readonly string[];
  /** The field of the list of genai-prices, with dollars for as many as the unit of the price says. */
  readonly genai?: string;
  /** The routes over which the gateway sells it. Default: all. */
  readonly isSold?: (route: Served) => boolean;
}

const isAnthropic = ({ kind }: Served): boolean => kind === undefined || kind === "anthropic";

/** The prices that the lists have. */
export const listFigures: { readonly [Name in PriceName]?: ListedFigure } = {
  input: { litellm: ["input_cost_per_token"], genai: "input_mtok" },
  output: { litellm: ["output_cost_per_token"], genai: "output_mtok" },
  cachedInput: {
    litellm: ["cache_read_input_token_cost", "input_cost_per_token_cache_hit"],
    genai: "cache_read_mtok",
  },
  cacheWrite: { litellm: ["cache_creation_input_token_cost"], genai: "cache_write_mtok" },
  cacheWrite1h: {
    litellm: ["cache_creation_input_token_cost_above_1hr"],
    genai: "cache_write_1h_mtok",
    isSold: isAnthropic,
  },
  webSearch: {
    // A table of prices by how much of the pages the model reads.
    litellm: ["search_context_cost_per_query"],
    genai: "web_searches_kcount",
    isSold: (route) => route.kind !== "openai" || route.responses,
  },
  audioInput: { litellm: ["input_cost_per_audio_token"], genai: "input_audio_mtok" },
  cachedAudioInput: {
    litellm: ["cache_read_input_audio_token_cost"],
    genai: "cache_audio_read_mtok",
  },
  imageInput: { litellm: ["input_cost_per_image_token"], genai: "input_image_mtok" },
  audioOutput: { litellm: ["output_cost_per_audio_token"], genai: "output_audio_mtok" },
  imageOutput: { litellm: ["output_cost_per_image_token"], genai: "output_image_mtok" },
  codeSession: { litellm: ["code_interpreter_cost_per_session"] },
};

/** The list without the figures that the gateway does not sell over the route, and the names of these. */
export function soldOver(
  list: DollarList,
  route: Served,
): { readonly list: DollarList; readonly unsold: readonly Figure[] } {
  const unsold = byPrice.filter(({ price: { name } }) => {
    const isSold = listFigures[name]?.isSold;
    return list.base[name] !== undefined && isSold !== undefined && !isSold(route);
  });
  if (unsold.length === 0) return { list, unsold };
  const left = new Set<string>(unsold.map(({ price }) => price.name));
  const rest = (prices: DollarPrices): DollarPrices =>
    Object.fromEntries(Object.entries(prices).filter(([name]) => !left.has(name)));
  const tiersOf = ({ base, tiers }: Pick<DollarList, "base" | "tiers">) => ({
    base: rest(base),
    tiers: tiers.map((tier) => ({ ...tier, prices: rest(tier.prices) })),
  });
  return { list: { ...tiersOf(list), services: ofEachService(list, tiersOf) }, unsold };
}
