import { Type, type Static } from "@sinclair/typebox";
import { orNull, Roubles } from "../answerFields.ts";
import { oneOf } from "../requestFields.ts";
import { LatencySample, Percentiles, savingFields, spanFields } from "./span.ts";

const count = Type.Integer({ minimum: 0 });
const milliseconds = orNull(count);
const share = orNull(Type.Number({ minimum: 0, maximum: 1 }));

const Outcome = Type.Object({ outcome: Type.String(), attempts: count });

/** Null in a list: no attempt or request in this step, or its attempts are folded. */
const ProviderSeries = Type.Object({
  requests: Type.Array(count),
  attempts: Type.Array(orNull(count)),
  failed: Type.Array(orNull(count)),
  first_byte_p50_ms: Type.Array(milliseconds),
  first_byte_p95_ms: Type.Array(milliseconds),
  duration_p50_ms: Type.Array(milliseconds),
  duration_p95_ms: Type.Array(milliseconds),
});

/**
 * A provider in the span. Latencies are of done requests whose only attempt was at this provider. `kind` is null if the
 * provider is no longer in the config.
 */
const Provider = Type.Object({
  provider: Type.String(),
  kind: orNull(Type.String()),
  base_url: orNull(Type.String()),
  models: Type.Array(Type.String(), {
    description: "The models of the config with a route to it.",
  }),
  requests: Type.Integer({ minimum: 0, description: "Requests that it answered." }),
  charged_rub: Roubles,
  operator_cost_rub: Roubles,
  prompt_tokens: count,
  cached_tokens: Type.Integer({ minimum: 0, description: "The part of them from its cache." }),
  ...savingFields,
  attempts: count,
  failed: Type.Integer({ minimum: 0, description: "Failed attempts." }),
  error_share: share,
  outcomes: Type.Array(Outcome, { description: "Failed attempts by outcome, the most first." }),
  first_byte_ms: Percentiles,
  duration_ms: Percentiles,
  series: ProviderSeries,
});

/** The circuit breaker of a route that was tried, as the running gateway reports it. */
const Breaker = Type.Object({
  provider: Type.String(),
  model: Type.String({ description: "The provider's name for the model." }),
  state: oneOf(["closed", "half-open", "open"]),
});

/** The answer of GET /api/providers. */
export type ProviderReport = Static<typeof ProviderReport>;
export const ProviderReport = Type.Object({
  ...spanFields,
  attempts_from: Type.String({
    description: "Attempts are counted from this step on. Earlier ones are folded.",
    format: "date-time",
  }),
  sample: LatencySample,
  providers: Type.Array(Provider),
  breakers: orNull(
    Type.Array(Breaker, {
      description: "Null if `[metrics]` is not configured, or if it cannot be read.",
    }),
  ),
  breakers_error: orNull(Type.String({ description: "Why `[metrics]` could not be read." })),
});
