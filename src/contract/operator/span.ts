import { Type } from "@sinclair/typebox";
import { countFields, orNull, Roubles, time } from "../answerFields.ts";
import { oneOf } from "../requestFields.ts";

// Parts of all reports on a span of time. Pages in browsers import the types of this folder.

/** The spans that a report can cover. Each ends now. */
export const reportSpans = ["24h", "7d", "30d", "90d"] as const;
export type ReportSpan = (typeof reportSpans)[number];

export const reportSteps = ["hour", "day"] as const;
export type ReportStep = (typeof reportSteps)[number];

/**
 * The span of a report. `from` is the start of the first step. The last step is not over yet. `step` is `hour` for
 * 24h, unless requests of the 24 hours are folded, and `day` otherwise. Days are UTC.
 */
export const spanFields = {
  span: oneOf(reportSpans),
  from: time(),
  to: time(),
  step: oneOf(reportSteps),
  times: Type.Array(time(), {
    description: "The start of each step. All lists of a series have this length.",
  }),
};

const count = Type.Integer({ minimum: 0 });

/** Amounts may be negative: writes to a cache may cost more than it saves. */
export const savingFields = {
  cache_saved_rub: Type.String({
    description:
      "What the prompt caches of providers saved the accounts: cached tokens times the input price less their own, minus what cache writes cost more than input. Roubles, negative if the writes cost more.",
  }),
  operator_saved_rub: Type.String({
    description: "The same of the operator's cost, over the routes with a configured cost.",
  }),
};

/** Sums over requests. The margin is the charges minus the refunds minus the operator's cost. */
export const figureFields = {
  requests: count,
  failed: Type.Integer({ minimum: 0, description: "Failed and interrupted requests." }),
  ...countFields,
  charged_rub: Roubles,
  refunded_rub: Roubles,
  operator_cost_rub: Roubles,
  ...savingFields,
  margin_rub: Roubles,
  write_off_rub: Roubles,
};

/** The sums of each step. `prompt_tokens` include cached ones. */
export const seriesFields = {
  requests: Type.Array(count),
  failed: Type.Array(count),
  prompt_tokens: Type.Array(count),
  completion_tokens: Type.Array(count),
  charged_rub: Type.Array(Roubles),
  refunded_rub: Type.Array(Roubles),
  operator_cost_rub: Type.Array(Roubles),
  margin_rub: Type.Array(Roubles),
};

/** One model in a series. `model` is null for all models after the first ten together. */
export const ModelSeries = Type.Object({
  model: orNull(Type.String()),
  requests: Type.Array(count),
  tokens: Type.Array(count, { description: "Prompt and completion tokens." }),
  charged_rub: Type.Array(Roubles),
});

const milliseconds = Type.Integer({ minimum: 0 });

/** Milliseconds of done requests. Null: there is no such request. */
export const Percentiles = orNull(Type.Object({ p50: milliseconds, p95: milliseconds }));

/** The requests that percentiles come from: all done requests of the span, or an evenly spaced part of them. */
export const LatencySample = Type.Object({
  requests: count,
  is_all: Type.Boolean(),
});

/** First byte and duration, from the client's side. */
export const latencyFields = {
  first_byte_ms: Percentiles,
  duration_ms: Percentiles,
  sample: LatencySample,
};
