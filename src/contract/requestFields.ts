import {
  Type,
  type SchemaOptions,
  type Static,
  type TObject,
  type TSchema,
} from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { type JsonFields, isJsonObject, walk } from "../lib/json.ts";
import { type ApiError, invalidRequest } from "./errors.ts";
import { type Annotations, validationMessage } from "./validationMessage.ts";
import type { FigureName } from "./figures.ts";
import { refuseFieldsInOtherCase, isInOtherCase } from "./keyCase.ts";
import { lazy } from "../lib/lazy.ts";

const CHOICES_MAX = 8;
const MODEL_CHARACTERS_MAX = 256;

/**
 * Fields that make the provider answer later, outside this exchange. Such tokens cannot be billed. `deferred` is xAI's:
 * https://docs.x.ai/docs/guides/deferred-chat-completions
 */
const DEFERRED_ANSWER_FIELDS = ["background", "deferred"];

/**
 * Other servers' names for the bound. They win over the standard names. llama.cpp:
 * https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md, text-generation-webui:
 * https://github.com/oobabooga/text-generation-webui/blob/main/extensions/openai/typing.py
 */
const OTHER_BOUND_NAMES = ["n_predict", "auto_max_new_tokens"];
/** llama.cpp's name for `n`. */
const OTHER_CHOICE_COUNT_NAME = "n_cmpl";

// The descriptions appear in /openapi.json.

/** An optional field. Null means the same as absent. */
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

/** A bound in tokens. It is exact in a double, so the held and the sent number are the same. */
const bound = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });

/** `model` as clients may send it. It need not exist. */
export const modelField = Type.String({
  minLength: 1,
  maxLength: MODEL_CHARACTERS_MAX,
  pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
  patternMessage: "not contain control characters",
  description: "The id of a model, as `GET /v1/models` lists it.",
} satisfies Annotations & Record<string, unknown>);

/** The fields of OpenAI's interfaces that decide how much is held. */
export const holdFields = {
  max_tokens: nullable(bound, "The most tokens that the answer may have, for each choice."),
  max_completion_tokens: nullable(bound, "The same under another name; two must not differ."),
  max_output_tokens: nullable(bound, "The same under the name that `/v1/responses` knows."),
  n: nullable(
    Type.Integer({ minimum: 1, maximum: CHOICES_MAX }),
    "How many choices to generate; 1 unless given. Money is held for all of them.",
  ),
};

const BOUND_NAMES = ["max_tokens", "max_completion_tokens", "max_output_tokens"] as const;

/** The values of `holdFields`, checked. */
export type HoldFields = Static<TObject<typeof holdFields>>;

/** Throws ApiError 400 for different values under two names of the bound: providers differ in which one counts. */
export function refuseDifferentBounds(body: HoldFields): void {
  let first: (typeof BOUND_NAMES)[number] | undefined;
  for (const name of BOUND_NAMES) {
    if (typeof body[name] !== "number") continue;
    first ??= name;
    if (body[name] !== body[first]) throw invalidRequest(`${first} and ${name} must not differ`);
  }
}

/**
 * Throws ApiError 400 for another server's name of the bound (`boundField` here) or of `n`: the answer could cost more
 * than is held. Null and false are allowed.
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
 * Throws ApiError 400 for a field that the operator refuses or that defers the answer, and for a known field in other
 * case. Null counts as absent.
 */
export function refuseFields(body: JsonFields, refusedFields: readonly string[]): void {
  refuseFieldsInOtherCase(body, refusedFields);
  const refused = refusedFields.find((name) => ownValue(body, name) !== undefined);
  if (refused !== undefined) throw invalidRequest(`${refused} is not supported`);
  for (const name of DEFERRED_ANSWER_FIELDS) {
    const value = ownValue(body, name);
    if (value !== undefined && value !== false) throw invalidRequest(`${name} is not supported`);
  }
}

/** The value of an own property. Undefined if it is absent or null. */
export function ownValue(body: JsonFields, key: string): unknown {
  return Object.hasOwn(body, key) ? (body[key] ?? undefined) : undefined;
}

/**
 * Makes a check that returns a valid body, and throws ApiError 400 with the first problem otherwise. The first call
 * compiles the schema.
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

const CACHE_CONTROL_CHARACTERS = "cache_control".length;
const CACHE_CONTROL: ReadonlySet<string> = new Set(["cache_control"]);
const TTL: ReadonlySet<string> = new Set(["ttl"]);
const STANDARD_TTL = "5m";
const LONG_TTL = "1h";

/** Throws ApiError 400 for a `cache_control` with a ttl over 5 minutes, anywhere in the body. */
export function refuseLongPromptCacheTtl(body: JsonFields): void {
  if (usesLongPromptCacheTtl(body)) throw longPromptCacheTtl();
}

/**
 * Whether a `cache_control` anywhere in the body has the ttl of an hour. Such a cache write costs more than one for 5
 * minutes: https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing. Providers of every kind may
 * serve Anthropic's models, but only kind anthropic reports how long tokens are kept. Throws ApiError 400 for any
 * other ttl.
 */
export function usesLongPromptCacheTtl(body: JsonFields): boolean {
  let isLong = false;
  walk(body, (found, key) => {
    // Case folding keeps the length, and few keys have the length of this name.
    const mayBeNamed = key?.length === CACHE_CONTROL_CHARACTERS;
    if (mayBeNamed && isNamed(key, CACHE_CONTROL) && isJsonObject(found)) {
      for (const [name, ttl] of Object.entries(found)) {
        if (!isNamed(name, TTL) || (ttl ?? STANDARD_TTL) === STANDARD_TTL) continue;
        if (ttl !== LONG_TTL) throw longPromptCacheTtl();
        isLong = true;
      }
    }
    return typeof found === "object";
  });
  return isLong;
}

/** The figures that a request asks for, with the cache writes for an hour. */
export function askedWithCache({
  asked,
  usesLongCacheTtl,
}: {
  readonly asked: readonly FigureName[];
  readonly usesLongCacheTtl: boolean;
}): readonly FigureName[] {
  return usesLongCacheTtl ? [...asked, "cacheWrite1hTokens"] : asked;
}

/** The refusal of a ttl that is not sold. */
export function longPromptCacheTtl(): ApiError {
  return invalidRequest(`cache_control beyond ${STANDARD_TTL} is not supported`);
}

function isNamed(key: string, names: ReadonlySet<string>): boolean {
  return names.has(key) || isInOtherCase(key, names);
}
