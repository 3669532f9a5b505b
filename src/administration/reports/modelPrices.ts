import type { Config, Price, RouteConfig } from "../../config/schema.ts";
import type { ModelPrices } from "../../contract/operator/modelPrices.ts";
import { NANO_ROUBLES_PER_SEARCH_UNIT } from "../../lib/money.ts";

type ShownRoute = ModelPrices["data"][number]["routes"][number];

/** The answer of GET /api/models. */
export function modelPricesOf({ models }: Config): ModelPrices {
  return {
    object: "list",
    data: models.map((model) => ({
      id: model.id,
      kind: model.kind,
      owned_by: model.ownedBy,
      prices: pricesOf(model.price),
      context_window: model.contextTokens,
      max_output_tokens: model.kind === "embedding" ? null : model.maxOutputTokens,
      fallbacks: [...model.fallbacks],
      routes: model.routes.map((route) => routeOf(route, model.price)),
    })),
  };
}

function routeOf(route: RouteConfig, price: Price): ShownRoute {
  const { operatorPrice: cost } = route;
  return {
    provider: route.provider,
    model: route.model,
    api: route.api,
    priority: route.priority,
    weight: route.weight,
    cost: cost === undefined ? null : pricesOf(cost),
    input_margin_percent: marginPercent(price.input, cost?.input),
    output_margin_percent: marginPercent(price.output, cost?.output),
  };
}

function pricesOf(price: Price): ModelPrices["data"][number]["prices"] {
  return {
    rub_input_per_1m: Number(price.input),
    rub_output_per_1m: Number(price.output),
    rub_cached_input_per_1m: Number(price.cachedInput),
    rub_cache_write_per_1m: Number(price.cacheWrite),
    rub_cache_write_1h_per_1m: Number(price.cacheWrite1h),
    rub_web_search_per_1k: Number(price.webSearch / NANO_ROUBLES_PER_SEARCH_UNIT),
  };
}

/** With one digit after the point. */
function marginPercent(price: bigint, cost: bigint | undefined): number | null {
  if (cost === undefined || price === 0n) return null;
  return Number(((price - cost) * 1000n) / price) / 10;
}
