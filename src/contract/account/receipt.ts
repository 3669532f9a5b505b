import { type Static, Type } from "@sinclair/typebox";
import { isoTime } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import { countFields, orNull, Roubles, time, usedPriceFields } from "../answerFields.ts";
import { countsOf, pricesOfUsage, type Price, type Usage } from "../figures.ts";
import { serviceTiers, type PricingNote } from "../priceList.ts";
import { oneOf } from "../requestFields.ts";
import { type Endpoint, endpoints, type RequestStatus, requestStatuses } from "./requestStatus.ts";

const milliseconds = orNull(Type.Integer({ minimum: 0 }));

/** The fields of a request without its provider. */
export const requestFields = {
  id: Type.String({ description: "The `x-request-id` header of the answer." }),
  at: time(),
  key_id: Type.String(),
  endpoint: oneOf(endpoints),
  model: Type.String(),
  stream: Type.Boolean(),
  status: oneOf(requestStatuses, {
    description:
      "`running`: open for more than a second; `cancelled`: the client disconnected, or the gateway could not read the end of the answer; `interrupted`: the gateway crashed, and nothing was charged.",
  }),
  ...countFields,
  estimated: Type.Boolean({ description: "True if the provider reported no usable counts." }),
  cost_rub: Roubles,
  duration_ms: milliseconds,
  first_byte_ms: milliseconds,
};

/** How an attempt ended, as key holders see it. It names no provider and nothing of the operator's account there. */
const attemptOutcomes = [
  "ok",
  "refused",
  "unavailable",
  "timeout",
  "failed",
  "cancelled",
  "internal_error",
] as const;
export type AttemptOutcome = (typeof attemptOutcomes)[number];

export type Attempt = Static<typeof Attempt>;
export const Attempt = Type.Object({
  outcome: oneOf(attemptOutcomes, {
    description:
      "`ok`: it answered; `refused`: the request was refused as invalid; `unavailable`: there was no connection, or no service; `timeout`: it took too long; `failed`: the answer was not usable, or broke off; `cancelled`: the client disconnected; `internal_error`: the gateway failed or shut down.",
  }),
  duration_ms: Type.Integer({ minimum: 0 }),
});

/** How recorded outcomes are shown. A status that is not listed is shown as `unavailable`. */
const outcomes: ReadonlyMap<string, AttemptOutcome> = new Map([
  ["ok", "ok"],
  ["status 400", "refused"],
  ["status 409", "refused"],
  ["status 413", "refused"],
  ["status 422", "refused"],
  ["unsupported", "refused"],
  ["timeout", "timeout"],
  ["closed", "failed"],
  ["protocol", "failed"],
  ["compressed", "failed"],
  ["content type", "failed"],
  ["empty answer", "failed"],
  ["endless answer", "failed"],
  ["incomplete answer", "failed"],
  ["invalid answer", "failed"],
  ["isolated failure", "failed"],
  ["reported failure", "failed"],
  ["too large", "failed"],
  ["unrequested data", "failed"],
  ["client disconnected", "cancelled"],
  ["database", "internal_error"],
  ["descriptors", "internal_error"],
  ["internal error", "internal_error"],
  ["shutdown", "internal_error"],
]);

/** An attempt as the store records it, without its provider and the provider's status. */
export function attemptForm(attempt: { outcome: string; durationMs: number }): Attempt {
  return {
    outcome: outcomes.get(attempt.outcome) ?? "unavailable",
    duration_ms: attempt.durationMs,
  };
}

/** The fields of `PricingNote`. */
const Pricing = Type.Object(
  {
    from_prompt_tokens: Type.Optional(
      Type.Integer({ minimum: 1, description: "The tier by the length of the prompt." }),
    ),
    service_tier: Type.Optional(oneOf(serviceTiers)),
    plan: Type.Optional(Type.String({ description: "The price plan of the account." })),
    plan_rule: Type.Optional(Type.String({ description: "The models of the plan's rule." })),
    usd_rate: Type.Optional(
      Type.String({ description: "Roubles for a dollar, where a price was in dollars." }),
    ),
  },
  { description: "Why the request has these prices." },
);

/** The answer of GET /v1/requests/{id}. */
export type Receipt = Static<typeof Receipt>;
export const Receipt = Type.Object({
  ...requestFields,
  refunded_rub: Roubles,
  ...usedPriceFields,
  pricing: Type.Optional(Pricing),
  attempts: Type.Array(Attempt, {
    description: "The attempts that have ended, oldest first. A failed one costs nothing.",
  }),
});

/** `charge` is nano-roubles. `key` is the key's id. */
export interface ShownRequest extends Usage {
  readonly id: string;
  readonly at: number;
  readonly key: string;
  readonly endpoint: Endpoint;
  readonly model: string;
  readonly stream: boolean;
  readonly status: RequestStatus;
  readonly estimated: boolean;
  readonly charge: bigint;
  readonly durationMs: number | null;
  readonly firstByteMs: number | null;
}

/** `price`: at admission, of the model that answered. `refunded` is nano-roubles. */
export interface ShownReceipt extends ShownRequest {
  readonly price: Price;
  readonly pricing: PricingNote | null;
  readonly refunded: bigint;
}

/** A request without its provider and without the operator's cost. */
export function requestForm(request: ShownRequest) {
  return {
    id: request.id,
    at: isoTime(request.at),
    key_id: request.key,
    endpoint: request.endpoint,
    model: request.model,
    stream: request.stream,
    status: request.status,
    ...countsOf(request),
    estimated: request.estimated,
    cost_rub: formatRoubles(request.charge),
    duration_ms: request.durationMs,
    first_byte_ms: request.firstByteMs,
  };
}

/** A request with its prices and refunds: a receipt without its attempts. */
export function receiptForm(request: ShownReceipt): Omit<Receipt, "attempts"> {
  return {
    ...requestForm(request),
    refunded_rub: formatRoubles(request.refunded),
    ...pricesOfUsage(request, request.price),
    ...(request.pricing !== null && { pricing: request.pricing }),
  };
}
