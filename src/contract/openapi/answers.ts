import type { TSchema } from "@sinclair/typebox";
import { Roubles } from "../answerFields.ts";
import { errorSchemas } from "../errorSchemas.ts";
import type { ErrorStatus } from "../errors.ts";
import type { PlainSchema, SchemaWriter } from "./plainSchema.ts";

type Headers = Readonly<Record<string, { readonly $ref: string }>>;

const header = (component: string) => ({ $ref: `#/components/headers/${component}` });

/** The header of all answers. */
const commonHeaders: Headers = { "x-request-id": header("RequestId") };

/** The headers of all answers to a request with a key. */
const keyHeaders: Headers = {
  ...commonHeaders,
  "x-ratelimit-limit-requests": header("LimitRequests"),
  "x-ratelimit-remaining-requests": header("RemainingRequests"),
  "x-ratelimit-reset-requests": header("ResetRequests"),
  "x-ratelimit-limit-tokens": header("LimitTokens"),
  "x-ratelimit-remaining-tokens": header("RemainingTokens"),
  "x-ratelimit-reset-tokens": header("ResetTokens"),
};

/** The additional header of an answer that costs money. */
export const costHeader: Headers = { "x-tollgate-cost-rub": header("CostOfJson") };

/** The additional header of a count of tokens. */
export const estimatedHeader: Headers = { "x-tollgate-estimated": header("Estimated") };

/** The headers of the answers of a route. A public route needs no key. */
export function answerHeaders(isPublic: boolean): Headers {
  return isPublic ? commonHeaders : keyHeaders;
}

export function headerComponents(schemas: SchemaWriter): Readonly<Record<string, object>> {
  const reset = "The time until the limit is full again, such as `12s`.";
  return {
    RequestId: always("The id of this request. Logs and usage records have it too.", {
      type: "string",
      pattern: "^req_[0-9a-z]+$",
    }),
    CostOfJson: sometimes(
      "The charge for the answer. A stream has none, and neither has a JSON answer that is late, after white space.",
      schemas.show(Roubles),
    ),
    Estimated: sometimes("`true` if the count is the gateway's estimate.", { type: "string" }),
    RetryAfter: always("Whole seconds to wait before a retry.", {
      type: "integer",
      minimum: 1,
    }),
    RetryAfterWhereKnown: sometimes("Whole seconds to wait before a retry, if known.", {
      type: "integer",
      minimum: 1,
    }),
    LimitRequests: sometimes("The key's limit of requests per minute, if it has one.", whole()),
    RemainingRequests: sometimes("The requests that remain of this limit.", whole()),
    ResetRequests: sometimes(reset, duration()),
    LimitTokens: sometimes("The key's limit of tokens per minute, if it has one.", whole()),
    RemainingTokens: sometimes("The tokens that remain of this limit.", whole()),
    ResetTokens: sometimes(reset, duration()),
  };
}

interface ErrorAnswer {
  /** The name of its component. */
  readonly name: string;
  readonly description: string;
  readonly headers: Headers;
}

const errors: Readonly<Record<ErrorStatus, ErrorAnswer>> = {
  400: {
    name: "InvalidRequest",
    description:
      "The request is not valid. The message names the first problem (`model is required`). If a provider refused the request, it is the provider's message. Any path can answer `invalid host header`. A retry does not help.",
    headers: keyHeaders,
  },
  401: {
    name: "InvalidKey",
    description:
      "`invalid api key`: the key is missing, unknown, revoked or expired, or its account is disabled. If the header has quotes or something else around the key, the message also says that.",
    headers: commonHeaders,
  },
  402: {
    name: "InsufficientBalance",
    description:
      "`insufficient balance`: the account or the key's budget cannot pay the most that the request can cost. Nothing was sent to a provider.",
    headers: keyHeaders,
  },
  404: {
    name: "NotFound",
    description:
      "`model not found`, `response not found`, `resource not found`, `request not found` or `voucher not found`: it does not exist, or this key may not use it.",
    headers: keyHeaders,
  },
  429: {
    name: "RateLimitExceeded",
    description:
      "`rate limit exceeded`: too many requests per minute, tokens per minute or concurrent requests. With the code `balance_held`, other open requests of the account hold the money that this request needs. `required_rub` is the least that this request needs. `available_rub` is what it can use now.",
    headers: { ...keyHeaders, "retry-after": header("RetryAfter") },
  },
  502: {
    name: "ProviderFailure",
    description:
      "`all providers unavailable`: no provider could answer. `service temporarily unavailable`: the gateway failed or shuts down. Nothing was charged.",
    headers: { ...keyHeaders, "retry-after": header("RetryAfterWhereKnown") },
  },
};

export function errorComponents(schemas: SchemaWriter): Readonly<Record<string, object>> {
  return Object.fromEntries(
    Object.entries(errors).map(([status, { name, description, headers }]) => {
      const schema = schemas.show(errorSchemas[Number(status) as ErrorStatus]);
      return [name, { description, headers, content: { "application/json": { schema } } }];
    }),
  );
}

/**
 * The description of an error answer: a component, or the same answer with the route's own schema. Undefined if the
 * status is not an error.
 */
export function errorAnswer(
  status: string,
  schema: TSchema,
  schemas: SchemaWriter,
): object | undefined {
  const [known, error] = Object.entries(errors).find(([known]) => known === status) ?? [];
  if (error === undefined) return undefined;
  const { name, description, headers } = error;
  const shown = schemas.show(schema);
  return Bun.deepEquals(shown, schemas.show(errorSchemas[Number(known) as ErrorStatus]))
    ? { $ref: `#/components/responses/${name}` }
    : { description, headers, content: { "application/json": { schema: shown } } };
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
