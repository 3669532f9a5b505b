import type { ErrorStatus } from "../errors.ts";
import { commonHeaders, headers, keyHeaders } from "./answerHeaders.ts";
import type { errorSchemas } from "./errorSchemas.ts";
import { jsonContent } from "./operationParts.ts";

interface ErrorAnswer {
  /** Its name as a component. */
  readonly name: string;
  readonly schema: keyof ReturnType<typeof errorSchemas>;
  readonly description: string;
  readonly headers: Readonly<Record<string, object>>;
}

const answers: Readonly<Record<ErrorStatus, ErrorAnswer>> = {
  400: {
    name: "InvalidRequest",
    schema: "InvalidRequestError",
    description:
      "The request itself is at fault: the first problem in words (`model is required`), or, where a provider refused it, the provider's message. On any path `invalid host header`. Asking again does not help.",
    headers: keyHeaders,
  },
  401: {
    name: "InvalidKey",
    schema: "AuthError",
    description:
      "`invalid api key`: it is missing, unknown, revoked or expired, or its account is disabled.",
    headers: commonHeaders,
  },
  402: {
    name: "InsufficientBalance",
    schema: "BillingError",
    description:
      "`insufficient balance`: the most that the request can cost is more than the account, or the key's budget, can pay. Nothing was sent to a provider.",
    headers: keyHeaders,
  },
  404: {
    name: "NotFound",
    schema: "InvalidRequestError",
    description:
      "`model not found`, `response not found`, `resource not found`, `request not found`: there is none of that name, or none for this key.",
    headers: keyHeaders,
  },
  429: {
    name: "RateLimitExceeded",
    schema: "RateLimitError",
    description:
      "`rate limit exceeded`: too many requests or tokens in this minute, or requests at once; or, with the code `balance_held`, the account's other open requests hold the money that this one needs: `required_rub` is the least that it needs, and `available_rub` is what it could have now.",
    headers: { ...keyHeaders, ...headers({ "retry-after": "RetryAfter" }) },
  },
  502: {
    name: "ProviderFailure",
    schema: "ProviderError",
    description:
      "`all providers unavailable`, or `service temporarily unavailable` where the gateway itself is at fault or shuts down. Nothing was charged.",
    headers: { ...keyHeaders, ...headers({ "retry-after": "RetryAfterWhereKnown" }) },
  },
};

/** The answers that are errors, as components by their names there. */
export function errorComponents(): Readonly<Record<string, object>> {
  return Object.fromEntries(
    Object.values(answers).map(({ name, schema, description, headers }) => [
      name,
      { description, headers, content: jsonContent(schema) },
    ]),
  );
}

/** An operation's errors, by status. */
export function errorsOf(...statuses: readonly ErrorStatus[]): Readonly<Record<string, object>> {
  return Object.fromEntries(
    statuses.map((status) => [
      String(status),
      { $ref: `#/components/responses/${answers[status].name}` },
    ]),
  );
}
