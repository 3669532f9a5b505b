import { Type, type Static } from "@sinclair/typebox";
import { orNull, priceFields, time, tokens } from "../answerFields.ts";
import { furtherPrices } from "../priceForms.ts";
import { serviceTiers } from "../priceList.ts";
import { oneOf } from "../requestFields.ts";

const prices = Type.Object(priceFields);

/** The margin in percent of the price. Null: the price is 0. Negative: the operator pays more than it gets. */
const percent = orNull(Type.Number());

/** `cost` and the margins are null if the config has no cost for the route. */
const ModelRoute = Type.Object({
  provider: Type.String(),
  model: Type.String({ description: "The provider's name for the model." }),
  api: oneOf(["chat", "responses"]),
  priority: Type.Integer(),
  weight: Type.Integer({ minimum: 1 }),
  cost: orNull(prices),
  input_margin_percent: percent,
  output_margin_percent: percent,
  lowest_margin: orNull(
    Type.Object(
      {
        percent: Type.Number(),
        price: Type.String({ description: "The key of the price." }),
        service_tier: orNull(oneOf(serviceTiers)),
        from_prompt_tokens: tokens("The tier by the length of the prompt."),
        plan: orNull(Type.String()),
      },
      { description: "The lowest margin of all prices, tiers and plans." },
    ),
  ),
});

/** The prices of a model for the accounts that have a plan. */
const PlanPrices = Type.Object({
  plan: Type.String(),
  rule: Type.String({ description: "The pattern of the rule in force." }),
  prices,
  ...furtherPrices,
});

/** The answer of GET /api/models. The order is that of the config. */
export type ModelPrices = Static<typeof ModelPrices>;
export const ModelPrices = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(
    Type.Object({
      id: Type.String(),
      kind: oneOf(["chat", "embedding"]),
      owned_by: Type.String(),
      prices,
      ...furtherPrices,
      next_prices: orNull(time()),
      aliases: Type.Array(Type.String()),
      plans: Type.Array(PlanPrices),
      context_window: tokens("The most tokens of prompt and answer together."),
      max_output_tokens: orNull(
        tokens("The most tokens of an answer. Null for an embedding model."),
      ),
      fallbacks: Type.Array(Type.String()),
      routes: Type.Array(ModelRoute),
    }),
  ),
});
