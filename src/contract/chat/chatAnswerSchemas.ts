import { Type } from "@sinclair/typebox";
import { figureDocs, tokens } from "../answerFields.ts";
import { StreamError } from "../errorSchemas.ts";
import { otherFigures } from "../figures.ts";
import { oneOf } from "../requestFields.ts";
import type { FinishReason } from "./finishReason.ts";

const details = {
  cached_tokens: Type.Optional(tokens("Tokens read from the provider's cache.")),
  cache_write_tokens: Type.Optional(tokens("Tokens written to the provider's cache.")),
  cache_write_1h_tokens: Type.Optional(
    tokens(
      "The part of the cache-write tokens that is kept for an hour. Absent if there are none.",
    ),
  ),
};

/** Every answer may have them, so their names are not typed. */
const others = Object.fromEntries(
  otherFigures.map(({ name, field }) => [
    field,
    Type.Optional(tokens(`${figureDocs[name].doc} Absent if there are none.`)),
  ]),
);

export const ChatUsage = Type.Object(
  {
    prompt_tokens: tokens("Tokens of the prompt, including cached tokens."),
    completion_tokens: tokens("Tokens of the answer, including reasoning."),
    total_tokens: tokens("The sum of both."),
    prompt_tokens_details: Type.Optional(Type.Object(details)),
    ...others,
  },
  { description: "The tokens that were charged for an answer." },
);

/** The JSON answer of POST /v1/chat/completions. */
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
      "The answer without `stream`. Fields that are not listed here (`tool_calls`, `reasoning_content`, `logprobs`, ...)",
      "are forwarded from the provider, unless the operator turned this off. A `service_tier` is left out if OpenAI does not",
      "document its value.",
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
          Type.Unknown({ description: "The provider's value; false after a failure." }),
        ),
      }),
      { description: "Empty only if the usage has its own chunk." },
    ),
    usage: Type.Optional(ChatUsage),
    error: Type.Optional(StreamError),
  },
  {
    description: [
      "One event of a stream. If the client asked for usage, the chunk with the last `finish_reason` has it. An operator can",
      "have it sent in the next chunk instead, which has no choices.",
      "After a failure the last chunk has the `finish_reason` `error` and an `error` of the type `provider_error`. If the",
      "status 200 was sent before any content, `error` is the error that the request would otherwise have got.",
    ].join(" "),
  },
);

function envelope<Name extends string>(object: Name) {
  return {
    id: Type.String({ description: "The id of the answer." }),
    object: Type.Literal(object),
    created: Type.Integer({ description: "Seconds since 1970." }),
    model: Type.String({ description: "The id that the client asked for." }),
  };
}

function index() {
  return Type.Integer({ minimum: 0, description: "The index of the choice." });
}

function role() {
  return Type.Literal("assistant");
}

function finishReason() {
  const meanings = {
    stop: "the answer is complete, or a stop sequence ended it",
    length: "the limit of its tokens was reached",
    content_filter: "a content policy removed content",
    tool_calls: "the model called a tool",
    error: "the provider failed",
  } satisfies Record<FinishReason, string>;
  const description = Object.entries(meanings)
    .map(([reason, meaning]) => `\`${reason}\`: ${meaning}`)
    .join("; ");
  return oneOf(Object.keys(meanings) as FinishReason[], { description: `${description}.` });
}
