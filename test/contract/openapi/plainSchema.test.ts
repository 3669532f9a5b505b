import { describe, expect, test } from "bun:test";
import { Type } from "@sinclair/typebox";
import { createSchemaWriter } from "../../../src/contract/openapi/plainSchema.ts";

const Part = Type.Object({ text: Type.String() }, { problem: () => "none", described: "a part" });
const Amount = Type.String({ pattern: "^1$", patternMessage: "be 1" });
const reference = { $ref: "#/components/schemas/Part" };

describe("a named schema", () => {
  const shown = (schema: Parameters<typeof createSchemaWriter>[0][string]) =>
    createSchemaWriter({ Part, Amount, Whole: schema }).components()["Whole"];

  test("stands by reference wherever it is in another, optional or not", () => {
    const whole = Type.Object({
      one: Part,
      perhaps: Type.Optional(Part),
      many: Type.Array(Part),
      either: Type.Union([Part, Type.Null()]),
      amount: Amount,
    });
    expect(shown(whole)).toEqual({
      type: "object",
      required: ["one", "many", "either", "amount"],
      properties: {
        one: reference,
        perhaps: reference,
        many: { type: "array", items: reference },
        either: { anyOf: [reference, { type: "null" }] },
        amount: { $ref: "#/components/schemas/Amount" },
      },
    });
  });

  test("is shown without our own annotations, which are kept as names of fields", () => {
    expect(createSchemaWriter({ Part, Amount }).components()).toEqual({
      Part: { type: "object", required: ["text"], properties: { text: { type: "string" } } },
      Amount: { type: "string", pattern: "^1$" },
    });
    const fields = Type.Object({ described: Type.Boolean(), problem: Type.Boolean() });
    expect(Object.keys(Object(shown(fields)).properties)).toEqual(["described", "problem"]);
  });

  test("of a few strings is an enum, and choices within a choice are one", () => {
    const few = Type.Union([Type.Literal("a"), Type.Literal("b")], { description: "Which." });
    expect(shown(few)).toEqual({ type: "string", description: "Which.", enum: ["a", "b"] });
    const nested = Type.Union([Type.Union([Type.String(), Type.Number()]), Type.Null()]);
    expect(shown(nested)).toEqual({
      anyOf: [{ type: "string" }, { type: "number" }, { type: "null" }],
    });
    const remarked = Type.Union([Type.Null(), Type.Number()], { description: "Why." });
    expect(shown(Type.Union([remarked, Type.String()]))).toEqual({
      anyOf: [
        { description: "Why.", anyOf: [{ type: "null" }, { type: "number" }] },
        { type: "string" },
      ],
    });
  });
});
