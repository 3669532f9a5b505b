import { Type } from "@sinclair/typebox";
import { tokens } from "../answerFields.ts";

const ResponsesUsage = Type.Object({
  input_tokens: tokens("Tokens of the prompt, the cached ones among them."),
  output_tokens: tokens("Tokens of the answer, those of reasoning among them."),
  total_tokens: Type.Optional(tokens("Both together.")),
});

/** The answer of POST /v1/responses, as far as the gateway knows it. Nothing checks an answer against it. */
export const ResponsesAnswer = Type.Partial(
  Type.Object({
    id: Type.String({ description: "The id of the response." }),
    object: Type.String({ description: "`response`." }),
    created_at: Type.Number({ description: "Seconds since 1970." }),
    status: Type.String({ description: "How it ended, such as `completed`." }),
    model: Type.String({ description: "The provider's name of the model." }),
    output: Type.Array(Type.Unknown(), { description: "What was answered, item by item." }),
    usage: Type.Union([ResponsesUsage, Type.Null()], {
      description: "The tokens of the answer, as the provider counts them.",
    }),
  }),
  {
    description: [
      "The provider's answer, byte for byte. What is listed here is what the gateway knows of it;",
      "what counts is the provider's own documentation.",
    ].join(" "),
  },
);
