import type { ApiError, ErrorExtra, ErrorStatus } from "../errors.ts";

/**
 * The values of `error.type` that clients of Anthropic's interface see
 * (https://platform.claude.com/docs/en/api/errors).
 */
export type MessagesErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "billing_error"
  | "not_found_error"
  | "rate_limit_error"
  | "api_error"
  | "overloaded_error";

/** The body of an error in Anthropic's form. `error` may also have our own fields, such as `required_rub`. */
export interface MessagesErrorBody {
  readonly type: "error";
  readonly error: { readonly type: MessagesErrorType; readonly message: string } & ErrorExtra;
  readonly request_id: string;
}

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
): MessagesErrorBody {
  const isOverloaded = status === 502 && retryAfterSeconds !== undefined;
  const type = isOverloaded ? "overloaded_error" : types[status];
  return { type: "error", error: { type, message, ...extra }, request_id: requestId };
}
