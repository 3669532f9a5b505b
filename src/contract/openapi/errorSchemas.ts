import { Type, type TProperties } from "@sinclair/typebox";
import { lazy } from "../../lib/lazy.ts";
import { errorTypes, type ErrorType } from "../errors.ts";
import { oneOf } from "../requestFields.ts";

// All schemas of this folder are made when the document is: a start that nobody asks for it pays nothing.

/** The form of every error, and that of each of the five types. */
export const errorSchemas = lazy(() => ({
  ErrorBody: Type.Object(
    {
      error: Type.Object({
        message: message(),
        type: oneOf(errorTypes, { description: "What kind of error it is." }),
      }),
    },
    { description: "The form of every error." },
  ),
  InvalidRequestError: errorOf("invalid_request_error", providersOwn()),
  AuthError: errorOf("auth_error"),
  BillingError: errorOf("billing_error", {
    code: Type.Literal("insufficient_balance"),
    required_rub: roubles(),
    available_rub: roubles(),
  }),
  RateLimitError: errorOf("rate_limit_error", {
    code: Type.Optional(
      Type.Literal("balance_held", {
        description:
          "The account's other open requests hold the money that this request needs. Absent where a rate or another limit is the reason.",
      }),
    ),
    required_rub: Type.Optional(roubles()),
    available_rub: Type.Optional(roubles()),
  }),
  ProviderError: errorOf("provider_error"),
}));

/** What a stream says of the failure that ended it. */
export function streamError() {
  return Type.Object({
    ...errorSchemas().ErrorBody.properties.error.properties,
    ...providersOwn(),
  });
}

/** An amount of money in JSON: a decimal string. */
export const roubles = lazy(() =>
  Type.String({
    description: "Roubles: a decimal with at most 9 digits after the point and no trailing zeros.",
    pattern: String.raw`^-?(0|[1-9]\d*)(\.\d{0,8}[1-9])?$`,
    examples: ["12.5", "-3", "0"],
  }),
);

function errorOf(type: ErrorType, extra: TProperties = {}) {
  return Type.Object({
    error: Type.Object({ message: message(), type: Type.Literal(type), ...extra }),
  });
}

function message() {
  return Type.String({ description: "What went wrong, in words." });
}

/** What a provider said beside its message. */
function providersOwn(): TProperties {
  const options = { description: "The provider's own, where it gave one." };
  return {
    code: Type.Optional(Type.Union([Type.String(), Type.Number(), Type.Null()], options)),
    param: Type.Optional(Type.Union([Type.String(), Type.Null()], options)),
  };
}
