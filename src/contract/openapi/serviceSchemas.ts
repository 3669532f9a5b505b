import { Type, type TSchema } from "@sinclair/typebox";
import { oneOf } from "../requestFields.ts";

/** What the gateway tells of its models and of itself. */
export function serviceSchemas(): Readonly<Record<string, TSchema>> {
  const Model = Type.Object(
    {
      id: Type.String({ description: "What requests name as `model`. It may hold slashes." }),
      object: Type.Literal("model"),
      created: Type.Integer({
        description:
          "Since when it is offered as it is now, in seconds since 1970; the same for all.",
      }),
      owned_by: Type.String({
        description:
          "Whose it is, as the operator says; else the id of its first route's provider.",
      }),
      rub_input_per_1m: price("input"),
      rub_output_per_1m: price("output"),
    },
    { description: "A model and what it costs." },
  );
  return {
    Model,
    ModelList: Type.Object({ object: Type.Literal("list"), data: Type.Array(Model) }),
    Health: Type.Object({
      status: Type.Literal("ok"),
      version: Type.String({ description: "The version of the gateway." }),
    }),
    HealthProblem: Type.Object({
      status: oneOf(["draining", "unavailable"], {
        description:
          "`draining`: it ends, and takes no new requests; `unavailable`: its store is not usable.",
      }),
    }),
  };
}

/** A price of the price list; `of` says of which tokens. */
export function price(of: string) {
  return Type.Integer({
    minimum: 0,
    description: `Thousandths of a rouble per 1,000,000 ${of} tokens.`,
  });
}
