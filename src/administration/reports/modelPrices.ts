import type { Config, ModelConfig, RouteConfig } from "../../config/schema.ts";
import { pricesOf } from "../../contract/figures.ts";
import { marginPercent, marginsOf, type Margin } from "../../contract/margins.ts";
import type { ModelPrices } from "../../contract/operator/modelPrices.ts";
import { furtherPricesOf } from "../../contract/priceForms.ts";
import {
  changesAfter,
  pricesAt,
  ruleAt,
  type PriceList,
  type SoldPrices,
} from "../../contract/priceList.ts";
import { isoTime } from "../../lib/clock.ts";

type ShownModel = ModelPrices["data"][number];
type ShownRoute = ShownModel["routes"][number];

/** The answer of GET /api/models, with the prices of this moment. */
export function modelPricesOf(config: Config, nowMs: number): ModelPrices {
  return {
    object: "list",
    data: config.models.map((model) => {
      const prices = pricesAt(model.schedule, nowMs);
      const [next] = changesAfter(model.schedule, undefined, nowMs);
      const plans = plannedOf(config, model, nowMs);
      return {
        id: model.id,
        kind: model.kind,
        owned_by: model.ownedBy,
        prices: pricesOf(prices.standard[0].price),
        ...furtherPricesOf(prices, prices.sells),
        next_prices: next === undefined ? null : isoTime(next),
        aliases: [...model.aliases],
        plans: plans.map(({ plan, rule, prices: planned }) => ({
          plan,
          rule,
          prices: pricesOf(planned.standard[0].price),
          ...furtherPricesOf(planned, planned.sells),
        })),
        context_window: model.contextTokens,
        max_output_tokens: model.kind === "embedding" ? null : model.maxOutputTokens,
        fallbacks: [...model.fallbacks],
        routes: model.routes.map((route) => routeOf(route, prices, plans)),
      };
    }),
  };
}

/** The prices of a plan for a model. */
interface Planned {
  readonly plan: string;
  readonly rule: string;
  readonly prices: SoldPrices;
}

/** The plans with a rule for the model that is in force. */
function plannedOf({ plans }: Config, model: ModelConfig, nowMs: number): readonly Planned[] {
  return plans.flatMap(({ id, models }) => {
    const rules = models.find(([name]) => name === model.id)?.[1];
    const rule = ruleAt(rules, nowMs);
    if (rule === undefined) return [];
    return [{ plan: id, rule: rule.models, prices: pricesAt(rule.schedule, nowMs) }];
  });
}

function routeOf(route: RouteConfig, prices: SoldPrices, plans: readonly Planned[]): ShownRoute {
  const costs = route.costs ?? prices.vendor;
  const { price } = prices.standard[0];
  const cost = costs?.standard[0].price;
  return {
    provider: route.provider,
    model: route.model,
    api: route.api,
    priority: route.priority,
    weight: route.weight,
    cost: cost === undefined ? null : pricesOf(cost),
    input_margin_percent: cost === undefined ? null : marginPercent(price.input, cost.input),
    output_margin_percent: cost === undefined ? null : marginPercent(price.output, cost.output),
    lowest_margin: costs === undefined ? null : lowestMargin(costs, prices, plans),
  };
}

function lowestMargin(
  costs: PriceList,
  own: SoldPrices,
  plans: readonly Planned[],
): ShownRoute["lowest_margin"] {
  const all = [{ plan: null, prices: own }, ...plans].flatMap(({ plan, prices }) =>
    marginsOf({ list: prices, sells: prices.sells, costs }).map((margin) => ({ plan, margin })),
  );
  let lowest: ShownRoute["lowest_margin"] = null;
  for (const { plan, margin } of all) {
    const percent = marginPercent(margin.sold, margin.cost);
    if (percent !== null && (lowest === null || percent < lowest.percent))
      lowest = { percent, ...placeOf(margin), plan };
  }
  return lowest;
}

function placeOf({ figure, service, fromPromptTokens }: Margin) {
  return {
    price: figure.price.key,
    service_tier: service ?? null,
    from_prompt_tokens: fromPromptTokens,
  };
}
