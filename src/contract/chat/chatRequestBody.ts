import { Type, type Static } from "@sinclair/typebox";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import type { Annotations } from "../validationMessage.ts";
import { holdFields, modelField, nullable, oneOf } from "../requestFields.ts";

const MESSAGES_MAX = 10_000;
/** Far more than the few words that a sequence is; the gateway keeps it in memory as long as the answer lasts. */
const STOP_CHARACTERS_MAX = 1024;

const role = oneOf(["system", "user", "assistant", "developer", "tool"], {
  description: "Who says it.",
});
const stopSequence = Type.String({ minLength: 1, maxLength: STOP_CHARACTERS_MAX });
const stopSequences = Type.Array(stopSequence, {
  minItems: 1,
  maxItems: 4,
  described: "an array of strings",
  range: "1 to 4 items",
} satisfies Annotations & Record<string, unknown>);

/** The optional fields of the request's table, in its order: the first problem is looked for in this order. */
const listedFields = {
  stream: nullable(Type.Boolean(), "True: the answer comes as server-sent events."),
  max_tokens: holdFields.max_tokens,
  reasoning_effort: nullable(
    oneOf(["low", "medium", "high", "xhigh"]),
    "How much a reasoning model may think.",
  ),
  verbosity: nullable(oneOf(["low", "medium", "high"]), "How long the answer should be."),
  reasoningSummary: nullable(
    oneOf(["auto", "detail", "concise"]),
    "The form of reasoning summaries, where a model gives any.",
  ),
  temperature: nullable(
    Type.Number({ minimum: 0, maximum: 2 }),
    "How freely tokens are drawn. Change this or `top_p`, not both.",
  ),
  top_p: nullable(
    Type.Number({ minimum: 0, maximum: 1 }),
    "Nucleus sampling: only the likeliest tokens of this share of probability are drawn.",
  ),
  stop: nullable(
    Type.Union([stopSequence, stopSequences]),
    "Generation stops at such a text, and the answer does not contain it.",
  ),
};

/** One part of a message's content. What is not text is the provider's to judge. */
export type ContentPart = Static<typeof ContentPart>;
export const ContentPart = Type.Object(
  {
    type: Type.String({ description: "What it is, such as `text` or `image_url`." }),
    text: Type.Optional(
      Type.Unknown({ description: "A string, required where the type is `text`." }),
    ),
  },
  {
    description: "One part of a message's content. What is not text is the provider's to judge.",
    problem: textPartProblem,
  } satisfies Annotations & Record<string, unknown>,
);

/** A message of a request. Fields that are not listed pass through. */
export type RequestMessage = Static<typeof RequestMessage>;
export const RequestMessage = Type.Object(
  {
    role,
    content: Type.Optional(
      Type.Union(
        [
          Type.String(),
          Type.Array(ContentPart, { described: "an array of parts" } satisfies Annotations),
          Type.Null(),
        ],
        {
          description:
            "The text. Required, but that an assistant's message with `tool_calls`, a `function_call`, a `refusal` or `audio` may do without or say null.",
        },
      ),
    ),
  },
  {
    description: "A message of the conversation. Further fields reach the provider as they are.",
    problem: contentProblem,
  } satisfies Annotations & Record<string, unknown>,
);

/** The body of POST /v1/chat/completions. Fields that are not listed pass through. */
export type ChatRequestBody = Static<typeof ChatRequestBody>;
export const ChatRequestBody = Type.Object({
  model: modelField,
  messages: Type.Array(RequestMessage, {
    minItems: 1,
    maxItems: MESSAGES_MAX,
    description: "The conversation so far.",
  }),
  ...listedFields,
  ...holdFields,
  stream_options: nullable(
    Type.Object({
      include_usage: nullable(
        Type.Boolean(),
        "True: the chunk that bears the `finish_reason` bears the usage too.",
      ),
    }),
    "How to stream.",
  ),
});

/** The same with `unknown_fields = "reject"`: the fields of the request's table, and no others at any depth. */
export type StrictChatRequestBody = Static<typeof StrictChatRequestBody>;
export const StrictChatRequestBody = Type.Object(
  {
    model: modelField,
    messages: Type.Array(
      Type.Object({ role, content: Type.String() }, { additionalProperties: false }),
      { minItems: 1, maxItems: MESSAGES_MAX },
    ),
    ...listedFields,
  },
  { additionalProperties: false },
);

/** Whether a message that TypeBox let through has none of the problems that only the annotations know of. */
export function hasValidContent(message: RequestMessage): boolean {
  const { content } = message;
  if (typeof content === "string") return true;
  if (!Array.isArray(content)) return contentProblem(message, "") === undefined;
  return content.every((part) => textPartProblem(part, "") === undefined);
}

/** Only an assistant's message that says something else may do without content: it calls tools, refuses, or names a recording. */
function contentProblem(message: object, path: string): string | undefined {
  const { role, content, ...said } = message as RequestMessage & JsonFields;
  if (content !== undefined && content !== null) return undefined;
  if (role === "assistant" && speaksOtherwise(said)) return undefined;
  return content === undefined
    ? `${path}.content is required`
    : `${path}.content must be a string or an array of parts`;
}

function speaksOtherwise({ tool_calls, function_call, refusal, audio }: JsonFields): boolean {
  const calls = Array.isArray(tool_calls) && tool_calls.length > 0;
  const refuses = typeof refusal === "string" && refusal !== "";
  return calls || refuses || isJsonObject(function_call) || isJsonObject(audio);
}

function textPartProblem(part: object, path: string): string | undefined {
  const { type, text } = part as ContentPart;
  if (type !== "text" || typeof text === "string") return undefined;
  return text === undefined || text === null
    ? `${path}.text is required`
    : `${path}.text must be a string`;
}

/**
 * The top-level fields of the chat convention: https://platform.openai.com/docs/api-reference/chat/create and those
 * of the contract. Another interface gets a counterpart of them, or nothing.
 */
export const CONVENTION_FIELDS: ReadonlySet<string> = new Set([
  "audio",
  "background",
  "frequency_penalty",
  "function_call",
  "functions",
  "logit_bias",
  "logprobs",
  "max_completion_tokens",
  "max_output_tokens",
  "max_tokens",
  "messages",
  "metadata",
  "modalities",
  "model",
  "moderation",
  "n",
  "parallel_tool_calls",
  "prediction",
  "presence_penalty",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "reasoningSummary",
  "reasoning_effort",
  "response_format",
  "safety_identifier",
  "seed",
  "service_tier",
  "stop",
  "store",
  "stream",
  "stream_options",
  "temperature",
  "tool_choice",
  "tools",
  "top_logprobs",
  "top_p",
  "user",
  "verbosity",
  "web_search_options",
]);
