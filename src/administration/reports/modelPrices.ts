import type { Config, RouteConfig } from "../../config/schema.ts";
import { pricesOf, type Price } from "../../contract/figures.ts";
import type { ModelPrices } from "../../contract/operator/modelPrices.ts";

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

/** With one digit after the point. */
function marginPercent(price: bigint, cost: bigint | undefined): number | null {
  if (cost === undefined || price === 0n) return null;
  return Number(((price - cost) * 1000n) / price) / 10;
}
