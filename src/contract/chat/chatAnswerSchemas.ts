import { Type } from "@sinclair/typebox";
import { tokens } from "../answerFields.ts";
import { StreamError } from "../errorSchemas.ts";
import { oneOf } from "../requestFields.ts";
import type { FinishReason } from "./chatAnswer.ts";

const details = {
  cached_tokens: Type.Optional(tokens("Tokens read from the provider's cache.")),
  cache_write_tokens: Type.Optional(tokens("Tokens written to the provider's cache.")),
};

/** The tokens of an answer as they were charged. */
export const ChatUsage = Type.Object(
  {
    prompt_tokens: tokens("Tokens of the prompt, the cached ones among them."),
    completion_tokens: tokens("Tokens of the answer, those of reasoning among them."),
    total_tokens: tokens("Both together."),
    prompt_tokens_details: Type.Optional(Type.Object(details)),
  },
  { description: "The tokens of an answer as they were charged." },
);

/** A whole answer of POST /v1/chat/completions. */
export const ChatAnswer = Type.Object(
  {
    ...envelope("chat.completion"),
    choices: Type.Array(
      Type.Object({
        index: index(),
        finish_reason: finishReason(),
        message: Type.Object({ role: role(), content: Type.String() }),
      }),
      { minItems: 1 },
    ),
    usage: ChatUsage,
  },
  {
    description: [
      "A whole answer. Fields that are not listed here (`tool_calls`, `reasoning_content`, `logprobs`, ...)",
      "pass as the provider gave them, unless the gateway is set to leave them out. A `service_tier` that OpenAI does not",
      "know never passes.",
    ].join(" "),
  },
);

const delta = { role: Type.Optional(role()), content: Type.Optional(Type.String()) };

/** One event of a stream of POST /v1/chat/completions. */
export const ChatChunk = Type.Object(
  {
    ...envelope("chat.completion.chunk"),
    choices: Type.Array(
      Type.Object({
        index: index(),
        delta: Type.Object(delta),
        finish_reason: Type.Union([finishReason(), Type.Null()], {
          description: "Null until the choice ends.",
        }),
        logprobs: Type.Optional(
          Type.Unknown({ description: "As the provider gave them; false after a failure." }),
        ),
      }),
      { description: "Empty only where the usage has a chunk of its own." },
    ),
    usage: Type.Optional(ChatUsage),
    error: Type.Optional(StreamError),
  },
  {
    description: [
      "One event of a stream. `usage` stands on the chunk that bears the `finish_reason`, for a client that asked for it,",
      "or, where the gateway is set so, in the next one, which has no choices.",
      "After a failure the last chunk has the `finish_reason` `error` and an `error`: a `provider_error`, or, where the head had",
      "to leave before the answer came, whatever error the request would have got.",
    ].join(" "),
  },
);

function envelope<Name extends string>(object: Name) {
  return {
    id: Type.String({ description: "The answer's own id." }),
    object: Type.Literal(object),
    created: Type.Integer({ description: "Seconds since 1970." }),
    model: Type.String({ description: "The id that the client asked for." }),
  };
}

function index() {
  return Type.Integer({ minimum: 0, description: "The choice's place in the list." });
}

function role() {
  return Type.Literal("assistant");
}

function finishReason() {
  const meanings = {
    stop: "it was complete, or a stop sequence came",
    length: "the bound of its tokens was reached",
    content_filter: "content was left out by policy",
    tool_calls: "the model called a tool",
    error: "the provider failed",
  } satisfies Record<FinishReason, string>;
  const description = Object.entries(meanings)
    .map(([reason, meaning]) => `\`${reason}\`: ${meaning}`)
    .join("; ");
  return oneOf(Object.keys(meanings) as FinishReason[], { description: `${description}.` });
}
