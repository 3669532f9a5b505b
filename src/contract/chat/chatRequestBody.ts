import { Type, type Static } from "@sinclair/typebox";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import type { Annotations } from "../validationMessage.ts";
import { holdFields, modelField, nullable, oneOf } from "../requestFields.ts";

const MESSAGES_MAX = 10_000;
/** The gateway keeps the sequences in memory until the answer ends. */
const STOP_CHARACTERS_MAX = 1024;

/** The values of `reasoning_effort`, from the least to the most. The specification of the service has those in the middle. */
export const reasoningEfforts = [
  "none",
  "minimal",
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
] as const;
export type ReasoningEffort = (typeof reasoningEfforts)[number];
export const extraEfforts = ["none", "minimal", "max"] as const satisfies ReasoningEffort[];

const role = oneOf(["system", "user", "assistant", "developer", "tool"], {
  description: "Who wrote it.",
});
const stopSequence = Type.String({ minLength: 1, maxLength: STOP_CHARACTERS_MAX });
const stopSequences = Type.Array(stopSequence, {
  minItems: 1,
  maxItems: 4,
  described: "an array of strings",
  range: "1 to 4 items",
} satisfies Annotations & Record<string, unknown>);

/** The optional fields. The check reports the first problem in this order. `extra` are the efforts besides the specified. */
const listedFields = (extra: readonly string[]) => ({
  stream: nullable(Type.Boolean(), "True: the answer comes as server-sent events."),
  max_tokens: holdFields.max_tokens,
  reasoning_effort: nullable(
    oneOf(reasoningEfforts.filter((effort) => !isExtra(effort) || extra.includes(effort))),
    "How much a model may reason. The operator may allow `none`, `minimal` and `max` too.",
  ),
  verbosity: nullable(oneOf(["low", "medium", "high"]), "How long the answer should be."),
  reasoningSummary: nullable(
    oneOf(["auto", "detail", "concise"]),
    "The form of reasoning summaries, if the model writes any.",
  ),
  temperature: nullable(
    Type.Number({ minimum: 0, maximum: 2 }),
    "How randomly tokens are chosen. Change this or `top_p`, not both.",
  ),
  top_p: nullable(
    Type.Number({ minimum: 0, maximum: 1 }),
    "Nucleus sampling: only the likeliest tokens with this total probability are chosen from.",
  ),
  stop: nullable(Type.Union([stopSequence, stopSequences]), "Generation stops before this text."),
});

function isExtra(effort: ReasoningEffort): boolean {
  return extraEfforts.some((one) => one === effort);
}

/** One part of a message's content. The provider checks parts that are not text. */
export type ContentPart = Static<typeof ContentPart>;
export const ContentPart = Type.Object(
  {
    type: Type.String({ description: "The kind of part, such as `text` or `image_url`." }),
    text: Type.Optional(Type.Unknown({ description: "A string. Required if the type is `text`." })),
  },
  {
    description: "One part of a message's content. The provider checks parts that are not text.",
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
            "The text. Required, except in an assistant message with `tool_calls`, `function_call`, `refusal` or `audio`, where it may also be null.",
        },
      ),
    ),
  },
  {
    description: "A message of the conversation. Other fields are forwarded as they are.",
    problem: contentProblem,
  } satisfies Annotations & Record<string, unknown>,
);

/** The body of POST /v1/chat/completions. Fields that are not listed pass through. */
export type ChatRequestBody = Static<ReturnType<typeof chatBodyWith>>;
export const chatBodyWith = (extra: readonly string[]) =>
  Type.Object({
    model: modelField,
    messages: Type.Array(RequestMessage, {
      minItems: 1,
      maxItems: MESSAGES_MAX,
      description: "The conversation so far.",
    }),
    ...listedFields(extra),
    ...holdFields,
    stream_options: nullable(
      Type.Object({
        include_usage: nullable(
          Type.Boolean(),
          "True: the chunk with the `finish_reason` also has the usage.",
        ),
      }),
      "How to stream.",
    ),
  });
export const ChatRequestBody = chatBodyWith([]);

/** The body under `unknown_fields = "reject"`: only the listed fields, at every depth. */
export const strictChatBodyWith = (extra: readonly string[]) =>
  Type.Object(
    {
      model: modelField,
      messages: Type.Array(
        Type.Object({ role, content: Type.String() }, { additionalProperties: false }),
        { minItems: 1, maxItems: MESSAGES_MAX },
      ),
      ...listedFields(extra),
    },
    { additionalProperties: false },
  );

/** Whether a message that passed TypeBox's check also passes the checks in the annotations. */
export function hasValidContent(message: RequestMessage): boolean {
  const { content } = message;
  if (typeof content === "string") return true;
  if (!Array.isArray(content)) return contentProblem(message, "") === undefined;
  return content.every((part) => textPartProblem(part, "") === undefined);
}

/** Only an assistant message that calls tools, refuses or names a recording may have no content. */
function contentProblem(message: object, path: string): string | undefined {
  const { role, content, ...others } = message as RequestMessage & JsonFields;
  if (content !== undefined && content !== null) return undefined;
  if (role === "assistant" && hasOtherContent(others)) return undefined;
  return content === undefined
    ? `${path}.content is required`
    : `${path}.content must be a string or an array of parts`;
}

function hasOtherContent({ tool_calls, function_call, refusal, audio }: JsonFields): boolean {
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
 * The top-level fields of OpenAI's chat interface (https://platform.openai.com/docs/api-reference/chat/create) and of
 * this gateway. Adapters translate or drop them; they forward all other fields.
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
