import { Roubles } from "../answerFields.ts";
import { errorSchemas } from "../errorSchemas.ts";
import type { ErrorStatus } from "../errors.ts";
import type { PlainSchema, SchemaWriter } from "./plainSchema.ts";

type Headers = Readonly<Record<string, { readonly $ref: string }>>;

const header = (component: string) => ({ $ref: `#/components/headers/${component}` });

/** The header of every answer. */
const commonHeaders: Headers = { "x-request-id": header("RequestId") };

/** The headers of every answer to a key. */
const keyHeaders: Headers = {
  ...commonHeaders,
  "x-ratelimit-limit-requests": header("LimitRequests"),
  "x-ratelimit-remaining-requests": header("RemainingRequests"),
  "x-ratelimit-reset-requests": header("ResetRequests"),
  "x-ratelimit-limit-tokens": header("LimitTokens"),
  "x-ratelimit-remaining-tokens": header("RemainingTokens"),
  "x-ratelimit-reset-tokens": header("ResetTokens"),
};

/** The further header of an answer that costs money. */
export const costHeader: Headers = { "x-tollgate-cost-rub": header("CostOfJson") };

/** The headers of the answers of a route. A public route asks for no key. */
export function answerHeaders(isPublic: boolean): Headers {
  return isPublic ? commonHeaders : keyHeaders;
}

/** The headers of answers, as components by their names there. */
export function headerComponents(schemas: SchemaWriter): Readonly<Record<string, object>> {
  const reset = "Until the limit is whole again, such as `12s`.";
  return {
    RequestId: always("The id of this request; logs and usage records bear it too.", {
      type: "string",
      pattern: "^req_[0-9a-z]+$",
    }),
    CostOfJson: sometimes("What the answer cost, where it is JSON.", schemas.show(Roubles)),
    RetryAfter: always("Whole seconds until another try is worth while.", {
      type: "integer",
      minimum: 1,
    }),
    RetryAfterWhereKnown: sometimes(
      "Whole seconds until another try is worth while, where known.",
      { type: "integer", minimum: 1 },
    ),
    LimitRequests: sometimes("The key's requests in a minute, where that is limited.", whole()),
    RemainingRequests: sometimes("What is left of them.", whole()),
    ResetRequests: sometimes(reset, duration()),
    LimitTokens: sometimes("The key's tokens in a minute, where that is limited.", whole()),
    RemainingTokens: sometimes("What is left of them.", whole()),
    ResetTokens: sometimes(reset, duration()),
  };
}

interface ErrorAnswer {
  /** Its name as a component. */
  readonly name: string;
  readonly description: string;
  readonly headers: Headers;
}

const errors: Readonly<Record<ErrorStatus, ErrorAnswer>> = {
  400: {
    name: "InvalidRequest",
    description:
      "The request itself is at fault: the first problem in words (`model is required`), or, where a provider refused it, the provider's message. On any path `invalid host header`. Asking again does not help.",
    headers: keyHeaders,
  },
  401: {
    name: "InvalidKey",
    description:
      "`invalid api key`: it is missing, unknown, revoked or expired, or its account is disabled.",
    headers: commonHeaders,
  },
  402: {
    name: "InsufficientBalance",
    description:
      "`insufficient balance`: the most that the request can cost is more than the account, or the key's budget, can pay. Nothing was sent to a provider.",
    headers: keyHeaders,
  },
  404: {
    name: "NotFound",
    description:
      "`model not found`, `response not found`, `resource not found`, `request not found`: there is none of that name, or none for this key.",
    headers: keyHeaders,
  },
  429: {
    name: "RateLimitExceeded",
    description:
      "`rate limit exceeded`: too many requests or tokens in this minute, or requests at once; or, with the code `balance_held`, the account's other open requests hold the money that this one needs: `required_rub` is the least that it needs, and `available_rub` is what it could have now.",
    headers: { ...keyHeaders, "retry-after": header("RetryAfter") },
  },
  502: {
    name: "ProviderFailure",
    description:
      "`all providers unavailable`, or `service temporarily unavailable` where the gateway itself is at fault or shuts down. Nothing was charged.",
    headers: { ...keyHeaders, "retry-after": header("RetryAfterWhereKnown") },
  },
};

/** The answers that are errors, as components by their names there. */
export function errorComponents(schemas: SchemaWriter): Readonly<Record<string, object>> {
  return Object.fromEntries(
    Object.entries(errors).map(([status, { name, description, headers }]) => {
      const schema = schemas.show(errorSchemas[Number(status) as ErrorStatus]);
      return [name, { description, headers, content: { "application/json": { schema } } }];
    }),
  );
}

/** The component of the error that has this status; undefined for another status. */
export function errorReference(status: string): { readonly $ref: string } | undefined {
  const error = Object.entries(errors).find(([known]) => known === status)?.[1];
  return error && { $ref: `#/components/responses/${error.name}` };
}

function always(description: string, schema: PlainSchema) {
  return { description, required: true, schema };
}

function sometimes(description: string, schema: PlainSchema) {
  return { description, schema };
}

function whole(): PlainSchema {
  return { type: "integer", minimum: 0 };
}

function duration(): PlainSchema {
  return { type: "string", pattern: String.raw`^\d+s$` };
}
