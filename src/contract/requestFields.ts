import {
  Type,
  type SchemaOptions,
  type Static,
  type TObject,
  type TSchema,
} from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { type JsonFields, isJsonObject, walk } from "../lib/json.ts";
import { invalidRequest } from "./errors.ts";
import { type Annotations, validationMessage } from "./validationMessage.ts";
import { refuseFieldsInOtherCase, isInOtherCase } from "./keyCase.ts";
import { lazy } from "../lib/lazy.ts";

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

/**
 * A check of request bodies: it returns the value that it was given, or throws ApiError 400 with the first problem in
 * words. It is compiled at its first call, because nothing happens at import time.
 */
export function bodyCheck<Schema extends TSchema>(
  schema: Schema,
): (value: unknown) => Static<Schema> {
  const compiled = lazy(() => TypeCompiler.Compile(schema));
  return (value) => {
    if (compiled().Check(value)) return value;
    throw invalidRequest(validationMessage(schema, value) ?? "body is not a valid request");
  };
}

/**
 * Throws ApiError 400 for a tool of a type that the operator refuses, also among the tools that another one holds or
 * that an item of an input brings: `additional_tools` and `tool_search_output` do,
 * https://platform.openai.com/docs/api-reference/responses/create#responses-create-input. What a caller's function is
 * described with is no tool.
 */
export function refuseTools(body: JsonFields, refusedTools: readonly string[]): void {
  if (refusedTools.length === 0) return;
  // No item has a type that is a tool's as well, so items need not be told from tools.
  walk([ownValue(body, "tools"), ownValue(body, "input")], (found, key) => {
    if (key !== undefined && key !== "tools") return false;
    const type = isJsonObject(found) ? ownValue(found, "type") : undefined;
    if (typeof type === "string" && refusedTools.includes(type)) {
      throw invalidRequest(`tools of the type ${type} are not supported`);
    }
    return typeof found === "object";
  });
}

const CACHE_CONTROL: ReadonlySet<string> = new Set(["cache_control"]);
const TTL: ReadonlySet<string> = new Set(["ttl"]);
const USUAL_TTL = "5m";

/**
 * Throws ApiError 400 for a cache of the prompt that is to be kept for longer than usual, wherever in a body it is asked
 * for: writing it costs more than a model's one price for that. Providers of any kind may serve Anthropic's models:
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing
 */
export function refuseLongPromptCacheTtl(body: JsonFields): void {
  walk(body, (found, key) => {
    if (key !== undefined && isNamed(key, CACHE_CONTROL) && isJsonObject(found)) {
      const isLong = Object.keys(found).some((name) => isNamed(name, TTL) && !isUsual(found[name]));
      if (isLong) throw invalidRequest(`cache_control beyond ${USUAL_TTL} is not supported`);
    }
    return typeof found === "object";
  });
}

function isNamed(key: string, names: ReadonlySet<string>): boolean {
  return names.has(key) || isInOtherCase(key, names);
}

function isUsual(ttl: unknown): boolean {
  return (ttl ?? USUAL_TTL) === USUAL_TTL;
}

/** How much a model reads: UTF-8 bytes of keys and strings, and parts whose tokens their bytes do not tell. */
export interface TextSize {
  readonly textBytes: number;
  readonly nonTextParts: number;
}

/** Measures a value of a client's. An object that `isOtherPart` recognises counts as one part, and what is in it not at all. */
export function measureText(
  value: unknown,
  isOtherPart: (object: JsonFields) => boolean = () => false,
): TextSize {
  let textBytes = 0;
  let nonTextParts = 0;
  walk(value, (found, key) => {
    if (key !== undefined) textBytes += Buffer.byteLength(key);
    if (typeof found === "string") textBytes += Buffer.byteLength(found);
    if (!isJsonObject(found) || !isOtherPart(found)) return typeof found === "object";
    nonTextParts += 1;
    return false;
  });
  return { textBytes, nonTextParts };
}
