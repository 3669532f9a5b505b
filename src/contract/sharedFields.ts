import {
  Type,
  type SchemaOptions,
  type Static,
  type TObject,
  type TSchema,
} from "@sinclair/typebox";
import type { JsonFields } from "../lib/json.ts";
import { invalidRequest } from "./errors.ts";
import type { Annotations } from "./humanError.ts";
import { refuseFieldsInOtherCase } from "./keyCase.ts";

const CHOICES_MAX = 8;
const MODEL_CHARACTERS_MAX = 256;

/**
 * By these the answer is made later, and fetched where nobody can bill its tokens: OpenAI's name and xAI's,
 * https://docs.x.ai/docs/guides/deferred-chat-completions
 */
const LATER_ANSWER_FIELDS = ["background", "deferred"];

/** The service tiers that cost what the price list says. */
const PLAIN_SERVICE_TIERS: ReadonlySet<unknown> = new Set(["auto", "default"]);

/**
 * Names by which some servers decide the same as `holdFields` do, and go by where both are given: llama.cpp's
 * https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md and text-generation-webui's
 * https://github.com/oobabooga/text-generation-webui/blob/main/extensions/openai/typing.py
 */
const OTHER_BOUND_NAMES = ["n_predict", "auto_max_new_tokens"];
const OTHER_CHOICE_COUNT_NAME = "n_cmpl";

// The descriptions are what clients read of a field in /openapi.json.

/** An optional field, in which null means the same as its absence. */
export function nullable<Schema extends TSchema>(schema: Schema, description: string) {
  return Type.Optional(Type.Union([schema, Type.Null()], { description }));
}

/** One of a few strings. */
export function oneOf<const Values extends readonly string[]>(
  values: Values,
  options: SchemaOptions = {},
) {
  const literals = values.map((value) => Type.Literal(value));
  return Type.Unsafe<Values[number]>(Type.Union(literals, options));
}

/** A count of tokens that the caller allows: exact in a double, so that what is held and what is sent cannot differ. */
const bound = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });

/** `model` as clients may send it. Whether there is such a model is not asked here. */
export const modelField = Type.String({
  minLength: 1,
  maxLength: MODEL_CHARACTERS_MAX,
  pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
  patternMessage: "not contain control characters",
  description: "The id of a model, as `GET /v1/models` lists it.",
} satisfies Annotations & Record<string, unknown>);

/** The fields of any request that decide how much is held, beside those that a request's own table lists. */
export const holdFields = {
  max_tokens: nullable(bound, "The most tokens that the answer may have, for each choice."),
  max_completion_tokens: nullable(bound, "The same under another name; two must not differ."),
  max_output_tokens: nullable(bound, "The same under the name that `/v1/responses` knows."),
  n: nullable(
    Type.Integer({ minimum: 1, maximum: CHOICES_MAX }),
    "How many choices to answer; 1 unless given. Money is held for all of them.",
  ),
};

/** The values of `holdFields`, checked. */
export type HoldFields = Static<TObject<typeof holdFields>>;

/** Throws ApiError 400 where two of the names of one bound are given different values: which of them counts is not ours to guess. */
export function refuseDifferentBounds(body: HoldFields): void {
  const names = ["max_tokens", "max_completion_tokens", "max_output_tokens"] as const;
  const [first, ...others] = names.filter((name) => typeof body[name] === "number");
  const other = others.find((name) => first !== undefined && body[name] !== body[first]);
  if (other !== undefined) throw invalidRequest(`${first} and ${other} must not differ`);
}

/**
 * Throws ApiError 400 for what some servers take for the bound, whose name is `boundField` here, or for the count of
 * choices: more would be answered than is held. One that is null or false decides nothing.
 */
export function refuseOtherNames(body: JsonFields, boundField: keyof typeof holdFields): void {
  for (const name of OTHER_BOUND_NAMES) refuseOtherName(body, name, boundField);
  refuseOtherName(body, OTHER_CHOICE_COUNT_NAME, "n");
}

function refuseOtherName(body: JsonFields, name: string, ours: string): void {
  const value = ownValue(body, name);
  if (value === undefined || value === false) return;
  throw invalidRequest(`${name} is not supported, use ${ours}`);
}

/**
 * Throws ApiError 400 for a field that would change the price or the provider unseen, and for one that some providers
 * take for another. A null one counts as absent.
 */
export function refuseFields(body: JsonFields, refusedFields: readonly string[]): void {
  refuseFieldsInOtherCase(body, refusedFields);
  const refused = refusedFields.find((name) => ownValue(body, name) !== undefined);
  if (refused !== undefined) throw invalidRequest(`${refused} is not supported`);
  for (const name of LATER_ANSWER_FIELDS) {
    const value = ownValue(body, name);
    if (value !== undefined && value !== false) throw invalidRequest(`${name} is not supported`);
  }
  const tier = ownValue(body, "service_tier");
  if (tier !== undefined && !PLAIN_SERVICE_TIERS.has(tier)) {
    throw invalidRequest("service_tier is not supported");
  }
}

/** A client's own field: undefined where it is absent or null, and for what every object inherits. */
export function ownValue(body: JsonFields, key: string): unknown {
  return Object.hasOwn(body, key) ? (body[key] ?? undefined) : undefined;
}
