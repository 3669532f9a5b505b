import { type Static, Type } from "@sinclair/typebox";
import { Roubles, tokens } from "../answerFields.ts";
import type { ApiError, ErrorStatus, ErrorType } from "../errors.ts";
import { oneOf } from "../requestFields.ts";
import { fieldsOf } from "../../lib/json.ts";

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

/**
 * The values of `error.type` that clients of Anthropic's interface see
 * (https://platform.claude.com/docs/en/api/errors).
 */
const messagesErrorTypes = [
  "invalid_request_error",
  "authentication_error",
  "billing_error",
  "not_found_error",
  "rate_limit_error",
  "api_error",
  "overloaded_error",
] as const;
type MessagesErrorType = (typeof messagesErrorTypes)[number];

/** The form of an error in Anthropic's interface. The further fields of `error` are those of `ErrorBody`. */
export type MessagesError = Static<typeof MessagesError>;
export const MessagesError = Type.Object(
  {
    type: Type.Literal("error"),
    error: Type.Object({
      type: oneOf(messagesErrorTypes, { description: "The kind of error." }),
      message: Type.String({ description: "The reason, for people." }),
      code: Type.Optional(Type.Union([Type.String(), Type.Number(), Type.Null()])),
      param: Type.Optional(Type.Union([Type.String(), Type.Null()])),
      details: Type.Optional(
        Type.Object(
          { error_code: Type.String(), unsupported: Type.Array(Type.String()) },
          { description: "Of a request for a thread: a client goes on without one." },
        ),
      ),
      required_rub: Type.Optional(Roubles),
      available_rub: Type.Optional(Roubles),
    }),
    request_id: Type.String({ description: "The value of the header `x-request-id`." }),
  },
  { description: "The form of an error in Anthropic's interface." },
);

const types: Readonly<Record<ErrorStatus, MessagesErrorType>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  404: "not_found_error",
  429: "rate_limit_error",
  502: "api_error",
};

/** The error in Anthropic's form. A 502 that names a time for the next try is `overloaded_error`. */
export function messagesErrorBody(
  { status, message, extra, retryAfterSeconds }: ApiError,
  requestId: string,
): MessagesError {
  const isOverloaded = status === 502 && retryAfterSeconds !== undefined;
  const type = isOverloaded ? "overloaded_error" : types[status];
  return { type: "error", error: { type, message, ...extra }, request_id: requestId };
}

/** The type in Anthropic's form for a type of ours. It is for a failure inside a stream, which has no status. */
export function messagesErrorType(type: ErrorType): MessagesErrorType {
  return streamTypes[type];
}

const streamTypes: Readonly<Record<ErrorType, MessagesErrorType>> = {
  invalid_request_error: "invalid_request_error",
  auth_error: "authentication_error",
  billing_error: "billing_error",
  rate_limit_error: "rate_limit_error",
  provider_error: "api_error",
};

/** The event that ends a stream that failed. */
export function messagesFailure(body: MessagesError): string {
  return `event: error\ndata: ${JSON.stringify(body)}\n\n`;
}

const CODE_RESULT = /code_execution_tool_result$/;

/** Whether a block of an answer is the result of code that the provider ran. */
export function isCodeRun(block: unknown): boolean {
  const { type } = fieldsOf(block);
  return typeof type === "string" && CODE_RESULT.test(type);
}

/** The runs of code that the content of an answer shows. */
export function codeRunsOf(content: unknown): number {
  return Array.isArray(content) ? content.filter(isCodeRun).length : 0;
}
