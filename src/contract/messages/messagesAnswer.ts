import { Type } from "@sinclair/typebox";
import { tokens } from "../answerFields.ts";

const MessagesUsage = Type.Object({
  input_tokens: tokens("Tokens of the prompt, without those read from or written to a cache."),
  output_tokens: tokens("Tokens of the answer, including reasoning."),
  cache_read_input_tokens: Type.Optional(
    Type.Union([tokens("Tokens read from the provider's cache."), Type.Null()]),
  ),
  cache_creation_input_tokens: Type.Optional(
    Type.Union([tokens("Tokens written to the provider's cache."), Type.Null()]),
  ),
});

/** The fields of an answer of POST /v1/messages that the gateway knows. Answers are not checked against it. */
export const MessagesAnswer = Type.Partial(
  Type.Object({
    id: Type.String({ description: "The id of the message." }),
    type: Type.String({ description: "`message`." }),
    role: Type.String({ description: "`assistant`." }),
    model: Type.String({ description: "The model that answered." }),
    content: Type.Array(Type.Unknown(), { description: "The content blocks of the answer." }),
    stop_reason: Type.Union([Type.String(), Type.Null()], {
      description: "Why the answer ended, such as `end_turn`, `max_tokens` or `tool_use`.",
    }),
    usage: MessagesUsage,
  }),
  {
    description: [
      "From a provider of kind anthropic: its own bytes. From other providers: their answer as a message.",
      "Anthropic's documentation defines the answer.",
    ].join(" "),
  },
);

/** The answer of POST /v1/messages/count_tokens. */
export const TokenCount = Type.Object(
  { input_tokens: tokens("Tokens of the prompt.") },
  { description: "The size of a prompt." },
);
