import { Type } from "@sinclair/typebox";
import { tokens } from "../answerFields.ts";

const ResponsesUsage = Type.Object({
  input_tokens: tokens("Tokens of the prompt, including cached tokens."),
  output_tokens: tokens("Tokens of the answer, including reasoning."),
  total_tokens: Type.Optional(tokens("The sum of both.")),
});

/** The fields of an answer of POST /v1/responses that the gateway knows. Answers are not checked against it. */
export const ResponsesAnswer = Type.Partial(
  Type.Object({
    id: Type.String({ description: "The id of the response." }),
    object: Type.String({ description: "`response`." }),
    created_at: Type.Number({ description: "Seconds since 1970." }),
    status: Type.String({ description: "The status of the response, such as `completed`." }),
    model: Type.String({ description: "The provider's name for the model." }),
    output: Type.Array(Type.Unknown(), { description: "The items of the answer." }),
    usage: Type.Union([ResponsesUsage, Type.Null()], {
      description: "The tokens of the answer, as the provider counts them.",
    }),
  }),
  {
    description: [
      "The provider's answer, byte for byte. The gateway knows only the listed fields.",
      "The provider's documentation defines the answer.",
    ].join(" "),
  },
);
