import { schemaReference, type PlainSchema } from "./plainSchema.ts";

const reset = "Until the limit is whole again, such as `12s`.";

/** The headers of answers, as components by their names there. */
export const headerComponents = {
  RequestId: always("The id of this request; logs and usage records bear it too.", {
    type: "string",
    pattern: "^req_[0-9a-z]+$",
  }),
  CostOfJson: sometimes("What the answer cost, where it is JSON.", schemaReference("Roubles")),
  RetryAfter: always("Whole seconds until another try is worth while.", {
    type: "integer",
    minimum: 1,
  }),
  RetryAfterWhereKnown: sometimes("Whole seconds until another try is worth while, where known.", {
    type: "integer",
    minimum: 1,
  }),
  LimitRequests: sometimes("The key's requests in a minute, where that is limited.", whole()),
  RemainingRequests: sometimes("What is left of them.", whole()),
  ResetRequests: sometimes(reset, duration()),
  LimitTokens: sometimes("The key's tokens in a minute, where that is limited.", whole()),
  RemainingTokens: sometimes("What is left of them.", whole()),
  ResetTokens: sometimes(reset, duration()),
};

type HeaderName = keyof typeof headerComponents;

/** On every answer. */
export const commonHeaders = headers({ "x-request-id": "RequestId" });

/** On every answer to a key. */
export const keyHeaders = {
  ...commonHeaders,
  ...headers({
    "x-ratelimit-limit-requests": "LimitRequests",
    "x-ratelimit-remaining-requests": "RemainingRequests",
    "x-ratelimit-reset-requests": "ResetRequests",
    "x-ratelimit-limit-tokens": "LimitTokens",
    "x-ratelimit-remaining-tokens": "RemainingTokens",
    "x-ratelimit-reset-tokens": "ResetTokens",
  }),
};

/** Headers by their names, each as a reference to its component. */
export function headers(
  names: Readonly<Record<string, HeaderName>>,
): Readonly<Record<string, { readonly $ref: string }>> {
  const entries = Object.entries(names);
  return Object.fromEntries(
    entries.map(([name, component]) => [name, { $ref: `#/components/headers/${component}` }]),
  );
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
