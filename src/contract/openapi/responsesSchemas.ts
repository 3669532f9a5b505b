import { Type, type TProperties, type TSchema } from "@sinclair/typebox";
import { ResponsesRequestBody } from "../responses/responsesRequest.ts";
import { tokens } from "./chatSchemas.ts";

/** What the responses interface takes, as far as the gateway looks at it, and gives. */
export function responsesSchemas(): Readonly<Record<string, TSchema>> {
  return {
    ResponsesRequest: ResponsesRequestBody,
    ResponsesAnswer: Type.Partial(Type.Object(answerFields()), {
      description: [
        "The provider's answer, byte for byte. What is listed here is what the gateway knows of it;",
        "what counts is the provider's own documentation.",
      ].join(" "),
    }),
  };
}

function answerFields(): TProperties {
  return {
    id: Type.String({ description: "The id of the response." }),
    object: Type.String({ description: "`response`." }),
    created_at: Type.Number({ description: "Seconds since 1970." }),
    status: Type.String({ description: "How it ended, such as `completed`." }),
    model: Type.String({ description: "The provider's name of the model." }),
    output: Type.Array(Type.Unknown(), { description: "What was answered, item by item." }),
    usage: Type.Union([usage(), Type.Null()], {
      description: "The tokens of the answer, as the provider counts them.",
    }),
  };
}

function usage() {
  return Type.Object({
    input_tokens: tokens("Tokens of the prompt, the cached ones among them."),
    output_tokens: tokens("Tokens of the answer, those of reasoning among them."),
    total_tokens: Type.Optional(tokens("Both together.")),
  });
}
