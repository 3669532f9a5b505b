import { Type, type Static } from "@sinclair/typebox";
import { price } from "./answerFields.ts";

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
    rub_input_per_1m: price("input"),
    rub_output_per_1m: price("output"),
  },
  { description: "A model and its prices." },
);

/** The answer of GET /v1/models. */
export type ModelList = Static<typeof ModelList>;
export const ModelList = Type.Object({ object: Type.Literal("list"), data: Type.Array(Model) });

/** A model of the config. Prices are nano-roubles per token. */
interface ShownModel {
  readonly id: string;
  readonly ownedBy: string;
  readonly price: { readonly input: bigint; readonly output: bigint };
}

/** A model as clients see it. `createdMs` is in milliseconds since 1970. */
export function modelForm({ id, ownedBy, price }: ShownModel, createdMs: number): Model {
  return {
    id,
    object: "model",
    // Strict clients require the field.
    created: Math.floor(createdMs / 1000),
    owned_by: ownedBy,
    rub_input_per_1m: Number(price.input),
    rub_output_per_1m: Number(price.output),
  };
}
