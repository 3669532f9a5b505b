import { Type, type TSchema } from "@sinclair/typebox";
import { oneOf } from "../requestFields.ts";
import { tokens } from "./chatSchemas.ts";
import { roubles } from "./errorSchemas.ts";
import { price } from "./serviceSchemas.ts";
import { endpoints, requestStatuses } from "../requestForm.ts";

/** What an account has, what it used, and what became of its requests. */
export function accountSchemas(): Readonly<Record<string, TSchema>> {
  return { Account: account(), UsageReport: usageReport(), Receipt: receipt() };
}

function account() {
  const limit = (of: string) => Type.Integer({ minimum: 0, description: `${of}; 0 is no limit.` });
  return Type.Object(
    {
      account: Type.String({ description: "The account's name." }),
      balance_rub: roubles(),
      held_rub: roubles(),
      available_rub: roubles(),
      key: Type.Object(
        {
          id: Type.String(),
          label: orNull(Type.String()),
          prefix: Type.String({ description: "How the key itself begins." }),
          expires_at: orNull(time()),
          budget_rub: orNull(roubles()),
          spent_rub: roubles(),
          limits: Type.Object({
            requests_per_minute: limit("Requests in a minute"),
            tokens_per_minute: limit("Tokens in a minute"),
            concurrent_requests: limit("Requests at once"),
          }),
        },
        {
          description:
            "The key that asks. Its budget is for its lifetime; `spent_rub` is what was charged of it, less what was refunded, and more than the budget where a provider reported more than was held. Both are of the whole line of keys that it was rotated from and into.",
        },
      ),
    },
    {
      description: [
        "`held_rub` is the most that open requests can still cost.",
        "`available_rub` is what may still be spent: the balance without that, and the overdraft, if there is one.",
      ].join(" "),
    },
  );
}

function usageReport() {
  return Type.Object({
    object: Type.Literal("list"),
    data: Type.Array(
      Type.Object({
        day: Type.Optional(
          Type.String({ description: "A date in UTC, of a report by day.", format: "date" }),
        ),
        model: Type.Optional(Type.String({ description: "A model, of a report by model." })),
        requests: Type.Integer({ minimum: 0, description: "All of them, the failed ones too." }),
        ...tokenCounts(),
        cost_rub: roubles(),
        refunded_rub: roubles(),
        failed: Type.Integer({ minimum: 0, description: "Those of them that failed." }),
      }),
    ),
  });
}

function receipt() {
  const milliseconds = orNull(Type.Integer({ minimum: 0 }));
  return Type.Object({
    id: Type.String({ description: "The `x-request-id` of its answer." }),
    at: time(),
    key_id: Type.String(),
    endpoint: oneOf(endpoints),
    model: Type.String(),
    stream: Type.Boolean(),
    status: oneOf(requestStatuses, {
      description:
        "`cancelled`: the client went away, or what it asked for ended in an answer that cannot be read; `interrupted`: the gateway crashed, and nothing was charged.",
    }),
    ...tokenCounts(),
    estimated: Type.Boolean({ description: "True where the provider reported no usable counts." }),
    cost_rub: roubles(),
    duration_ms: milliseconds,
    first_byte_ms: milliseconds,
    refunded_rub: roubles(),
    rub_input_per_1m: price("input"),
    rub_output_per_1m: price("output"),
    rub_cached_input_per_1m: price("cached input"),
    rub_cache_write_per_1m: price("cache-write"),
  });
}

function tokenCounts() {
  return {
    prompt_tokens: tokens("Tokens of the prompts, the cached ones among them."),
    cached_tokens: tokens("Tokens read from the providers' caches."),
    cache_write_tokens: tokens("Tokens written to the providers' caches."),
    completion_tokens: tokens("Tokens of the answers, those of reasoning among them."),
  };
}

function orNull(schema: TSchema) {
  return Type.Union([schema, Type.Null()]);
}

function time() {
  return Type.String({ description: "ISO 8601 in UTC.", format: "date-time" });
}
