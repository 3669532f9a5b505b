import { Type, type Static, type TProperties, type TSchema } from "@sinclair/typebox";
import { Roubles } from "./answerFields.ts";
import { errorTypes, type ErrorStatus, type ErrorType } from "./errors.ts";
import { MessagesError } from "./messages/messagesAnswer.ts";
import { oneOf } from "./requestFields.ts";

/** Fields of a provider's error that are forwarded. */
const providerFields = {
  code: Type.Optional(Type.Union([Type.String(), Type.Number(), Type.Null()], providerField())),
  param: Type.Optional(Type.Union([Type.String(), Type.Null()], providerField())),
};

/** The form of every error. */
export const ErrorBody = Type.Object(
  {
    error: Type.Object({
      message: message(),
      type: oneOf(errorTypes, { description: "The kind of error." }),
    }),
  },
  { description: "The form of every error." },
);

export const InvalidRequestError = errorOf("invalid_request_error", providerFields);
export const AuthError = errorOf("auth_error", {});
export const BillingError = errorOf("billing_error", {
  code: Type.Literal("insufficient_balance"),
  required_rub: Roubles,
  available_rub: Roubles,
});
export const RateLimitError = errorOf("rate_limit_error", {
  code: Type.Optional(
    Type.String({
      description: [
        "`balance_held`: other open requests of the account hold the money that this request needs.",
        "Another one is the provider's, whose rate this request alone exceeds. Absent if a limit of the gateway is the reason.",
      ].join(" "),
    }),
  ),
  param: providerFields.param,
  required_rub: Type.Optional(Roubles),
  available_rub: Type.Optional(Roubles),
});
export const ProviderError = errorOf("provider_error", {});

/** The error in a stream that failed. */
export const StreamError = Type.Object({
  ...ErrorBody.properties.error.properties,
  ...providerFields,
});

/** The body of an error, by its status. */
export const errorSchemas = {
  400: InvalidRequestError,
  401: AuthError,
  402: BillingError,
  404: InvalidRequestError,
  429: RateLimitError,
  502: ProviderError,
} satisfies Record<ErrorStatus, unknown>;

/** The error answers of a route, for its `response`. */
export function errorAnswers<Status extends ErrorStatus>(
  ...statuses: readonly Status[]
): Pick<typeof errorSchemas, Status> {
  const entries = statuses.map((status) => [status, errorSchemas[status]] as const);
  return Object.fromEntries(entries) as Pick<typeof errorSchemas, Status>;
}

/** The error answers of a route whose form depends on the client's headers. */
export function errorAnswersInBothForms<Status extends ErrorStatus>(
  ...statuses: readonly Status[]
): Pick<typeof errorSchemas, Status> {
  const entries = statuses.map((status) => [
    status,
    inBothForms(errorSchemas[status], MessagesError),
  ]);
  return Object.fromEntries(entries) as Pick<typeof errorSchemas, Status>;
}

/** A body in OpenAI's or in Anthropic's form. Its type is OpenAI's: an Eden client does not ask for the other one. */
export function inBothForms<Schema extends TSchema>(schema: Schema, messagesSchema: TSchema) {
  return Type.Unsafe<Static<Schema>>(Type.Union([schema, messagesSchema]));
}

function errorOf<Name extends ErrorType, Extra extends TProperties>(type: Name, extra: Extra) {
  return Type.Object({
    error: Type.Object({ message: message(), type: Type.Literal(type), ...extra }),
  });
}

function message() {
  return Type.String({ description: "The reason, for people." });
}

function providerField() {
  return { description: "The value of the provider's error, if it has one." };
}
