import { Type, type Static } from "@sinclair/typebox";
import { endpoints, type Endpoint } from "./account/requestStatus.ts";
import { isoTime } from "../lib/clock.ts";
import { priceFields, time, tokens } from "./answerFields.ts";
import { furtherPrices, furtherPricesOf, soldPricesOf } from "./priceForms.ts";
import type { SoldPrices } from "./priceList.ts";
import { oneOf } from "./requestFields.ts";

/** The answer of GET /v1/models/{id}. */
export type Model = Static<typeof Model>;
export const Model = Type.Object(
  {
    id: Type.String({ description: "The `model` of a request. It may contain slashes." }),
    object: Type.Literal("model"),
    created: Type.Integer({
      description: "The time at which the current config was loaded, in seconds since 1970.",
    }),
    owned_by: Type.String({
      description:
        "The owner that the operator configured, or else the id of the first route's provider.",
    }),
    rub_input_per_1m: priceFields.rub_input_per_1m,
    rub_output_per_1m: priceFields.rub_output_per_1m,
    ...furtherPrices,
    next: Type.Optional(
      Type.Composite(
        [
          Type.Object({ from: time() }),
          Type.Partial(Type.Object(priceFields)),
          Type.Object(furtherPrices),
        ],
        {
          description: "The next prices, and when they come into force. Absent if none are known.",
        },
      ),
    ),
    aliases: Type.Optional(
      Type.Array(Type.String(), {
        description:
          "Further names of the model, in which `*` is any text. It is charged and reported under its id. Absent if there are none.",
      }),
    ),
    context_window: tokens("The most tokens of prompt and answer together."),
    max_output_tokens: Type.Optional(
      tokens("The most tokens of an answer. Absent for an embedding model."),
    ),
    endpoints: Type.Array(oneOf(endpoints), {
      description:
        "The calls that accept the model: `/v1/chat/completions`, `/v1/responses`, `/v1/messages`, `/v1/embeddings`.",
    }),
  },
  { description: "A model and its prices." },
);

/** The answer of GET /v1/models. */
export type ModelList = Static<typeof ModelList>;
export const ModelList = Type.Object({ object: Type.Literal("list"), data: Type.Array(Model) });

/** The prices of a model for one account. */
export interface ShownPrices {
  readonly now: SoldPrices;
  readonly next: { readonly fromMs: number; readonly prices: SoldPrices } | undefined;
}

/** A model of the config. */
interface ShownModel {
  readonly id: string;
  readonly ownedBy: string;
  readonly aliases: readonly string[];
  readonly contextTokens: number;
  /** 0 for an embedding model. */
  readonly maxOutputTokens: number;
}

/** A model as clients see it. `createdMs` is in milliseconds since 1970. */
export function modelForm(
  model: ShownModel,
  { now, next }: ShownPrices,
  endpoints: readonly Endpoint[],
  createdMs: number,
): Model {
  return {
    id: model.id,
    object: "model",
    // Strict clients require the field.
    created: Math.floor(createdMs / 1000),
    owned_by: model.ownedBy,
    rub_input_per_1m: Number(now.standard[0].price.input),
    rub_output_per_1m: Number(now.standard[0].price.output),
    ...furtherPricesOf(now, now.sells),
    ...(next && {
      next: {
        from: isoTime(next.fromMs),
        ...soldPricesOf(next.prices.standard[0].price, next.prices.sells),
        ...furtherPricesOf(next.prices, next.prices.sells),
      },
    }),
    ...(model.aliases.length > 0 && { aliases: [...model.aliases] }),
    context_window: model.contextTokens,
    ...(model.maxOutputTokens > 0 && { max_output_tokens: model.maxOutputTokens }),
    endpoints: [...endpoints],
  };
}
