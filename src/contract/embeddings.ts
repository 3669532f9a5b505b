import { Type, type Static } from "@sinclair/typebox";
import type { JsonFields } from "../lib/json.ts";
import { tokens } from "./answerFields.ts";
import { invalidRequest } from "./errors.ts";
import { refuseExtraFields } from "./extras.ts";
import { refuseKeysInOtherCase } from "./keyCase.ts";
import { askedTier, unsoldTier } from "./serviceTier.ts";
import { bodyCheck, modelField, nullable, oneOf, ownValue, refuseFields } from "./requestFields.ts";
import type { Annotations } from "./validationMessage.ts";

/** Larger than any vocabulary. */
const TOKEN_MAX = 2 ** 31 - 1;

const text = Type.String({ minLength: 1 });
const token = Type.Integer({ minimum: 0, maximum: TOKEN_MAX });
const tokenArray = Type.Array(token, {
  minItems: 1,
  described: "an array of tokens",
} satisfies Annotations & Record<string, unknown>);

const fields = {
  model: modelField,
  input: Type.Union(
    [
      text,
      Type.Array(Type.Union([text, token, tokenArray]), {
        minItems: 1,
        described: "an array of strings or of tokens",
      } satisfies Annotations & Record<string, unknown>),
    ],
    {
      description:
        "A text, several texts, the tokens of one text, or the tokens of several texts. An array of integers is one input.",
    },
  ),
  dimensions: nullable(
    Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    "The length of each vector, for models that can shorten it.",
  ),
  encoding_format: nullable(
    oneOf(["float", "base64"]),
    "How the vectors are written: as arrays of numbers, or as base64 of 32-bit floats, lowest byte first.",
  ),
  user: nullable(Type.String(), "The client's end user, for the provider."),
};

/** The body of POST /v1/embeddings. Fields that are not listed pass through. */
export type EmbeddingsRequestBody = Static<typeof EmbeddingsRequestBody>;
export const EmbeddingsRequestBody = Type.Object(fields);

/** The body under `unknown_fields = "reject"`. */
const StrictEmbeddingsRequestBody = Type.Object(fields, { additionalProperties: false });

/** The listed fields that no other endpoint has. */
const OWN_FIELDS: ReadonlySet<string> = new Set(["dimensions", "encoding_format", "user"]);

/**
 * vLLM embeds a conversation instead of the input:
 * https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#embeddings-api
 */
const OTHER_INPUT_FIELD = "messages";

const checkOpen = bodyCheck(EmbeddingsRequestBody);
const checkStrict = bodyCheck(StrictEmbeddingsRequestBody);

/** A checked request: what the gateway itself needs, and the parsed body for the adapters. */
export interface EmbeddingsRequest extends EmbeddingsFigures {
  /** The texts in their order; none if the inputs are tokens. */
  readonly texts: readonly string[];
}

/** A request without its inputs. */
export interface EmbeddingsFigures {
  readonly model: string;
  /** The inputs are texts, not tokens. */
  readonly areTexts: boolean;
  /** The size of each input: the UTF-8 bytes of a text, or the number of its tokens. */
  readonly inputSizes: readonly number[];
  readonly dimensions: number | undefined;
  readonly encodingFormat: "float" | "base64";
  /** The other fields. */
  readonly fields: JsonFields;
}

/** The operator's rules. `refusedFields` are top-level names, `allowedTools` are names of extras. */
export interface EmbeddingsRules {
  readonly unknownFields: "forward" | "reject";
  readonly refusedFields: readonly string[];
  readonly allowedTools: readonly string[];
  readonly maxEmbeddingInputs: number;
}

/** Checks a body that `parseJsonObject` accepted. Throws ApiError 400 with the first problem. */
export function checkEmbeddingsRequest(
  value: JsonFields,
  rules: EmbeddingsRules,
): EmbeddingsRequest {
  const body: EmbeddingsRequestBody =
    rules.unknownFields === "reject" ? checkStrict(value) : checkOpen(value);
  refuseFields(value, [...rules.refusedFields, OTHER_INPUT_FIELD]);
  refuseExtraFields(value, rules.allowedTools);
  const refusal = unsoldTier({ services: {} }, askedTier(value), rules.allowedTools);
  if (refusal !== undefined) throw refusal;
  refuseKeysInOtherCase(value, OWN_FIELDS);
  const stream = ownValue(value, "stream");
  if (stream !== undefined && stream !== false) throw invalidRequest("stream is not supported");
  const inputs = inputsOf(body.input);
  const count = inputs.inputSizes.length;
  if (count > rules.maxEmbeddingInputs) {
    throw invalidRequest(`input must contain at most ${rules.maxEmbeddingInputs} items`);
  }
  const { input: _, ...fields } = value;
  return {
    model: body.model,
    ...inputs,
    dimensions: body.dimensions ?? undefined,
    encodingFormat: body.encoding_format ?? "float",
    fields,
  };
}

/** Throws ApiError 400 if the items are not all of one type. */
function inputsOf(
  input: EmbeddingsRequestBody["input"],
): Pick<EmbeddingsRequest, "areTexts" | "texts" | "inputSizes"> {
  const items: readonly unknown[] = typeof input === "string" ? [input] : input;
  if (items.every((item) => typeof item === "string")) {
    return {
      areTexts: true,
      texts: items,
      inputSizes: items.map((item) => Buffer.byteLength(item)),
    };
  }
  if (items.every((item) => typeof item === "number")) {
    return { areTexts: false, texts: [], inputSizes: [items.length] };
  }
  if (items.every((item) => Array.isArray(item))) {
    return { areTexts: false, texts: [], inputSizes: items.map((item) => item.length) };
  }
  throw invalidRequest("input must not mix strings, tokens and arrays of tokens");
}

const EmbeddingsUsage = Type.Object({
  prompt_tokens: tokens("Tokens of all inputs."),
  total_tokens: tokens("The same."),
});

/** The fields of an answer of POST /v1/embeddings that the gateway knows. Answers are not checked against it. */
export const EmbeddingsAnswer = Type.Object(
  {
    object: Type.Literal("list"),
    data: Type.Array(
      Type.Object({
        object: Type.Literal("embedding"),
        index: Type.Integer({ minimum: 0, description: "The position of the input." }),
        embedding: Type.Union([Type.Array(Type.Number()), Type.String()], {
          description: "The vector: numbers, or base64.",
        }),
      }),
      { description: "One vector for each input." },
    ),
    model: Type.String({ description: "The provider's name for the model." }),
    usage: Type.Optional(EmbeddingsUsage),
  },
  {
    description:
      "The vectors. From a provider with the same interface it is the provider's answer, byte for byte.",
  },
);

/** The answer for vectors of a provider with another interface. A string is a vector in base64. */
export function embeddingsAnswer(
  model: string,
  vectors: readonly (string | number[])[],
  promptTokens: number,
): Static<typeof EmbeddingsAnswer> {
  return {
    object: "list",
    data: vectors.map((vector, index) => ({
      object: "embedding",
      index,
      embedding: vector,
    })),
    model,
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  };
}
