import { Type, type Static } from "@sinclair/typebox";
import { orNull, Roubles, time } from "../answerFields.ts";
import {
  figureFields,
  latencyFields,
  ModelSeries,
  savingFields,
  seriesFields,
  spanFields,
} from "./span.ts";

const count = Type.Integer({ minimum: 0 });

/** One group of a ranking, the one with the highest charges first. */
const ranked = {
  requests: count,
  failed: count,
  charged_rub: Roubles,
  operator_cost_rub: Roubles,
  prompt_tokens: count,
  cached_tokens: count,
  ...savingFields,
};

/** Sums and latencies of one span. A day with folded requests counts as a whole. */
const SpanFigures = Type.Object({ from: time(), to: time(), ...figureFields, ...latencyFields });

/** An account that has money for less than a week at the pace of the last seven days. */
const LowAccount = Type.Object({
  account: Type.String(),
  balance_rub: Roubles,
  available_rub: Roubles,
  charged_7d_rub: Roubles,
  days_left: Type.Number({ minimum: 0 }),
});

const ExpiringKey = Type.Object({
  key_id: Type.String(),
  account: Type.String(),
  label: orNull(Type.String()),
  expires_at: time(),
  last_used_at: orNull(time()),
  is_replaced: Type.Boolean({ description: "True for the old key of a rotation." }),
});

/** `attempts` and `failed` are those of the last hour. */
const FailingProvider = Type.Object({ provider: Type.String(), attempts: count, failed: count });

/** A request that is open for more than an hour, with what it holds. */
const OldHold = Type.Object({
  id: Type.String(),
  at: time(),
  account: Type.String(),
  key_id: Type.String(),
  model: Type.String(),
  hold_rub: Roubles,
});

/** `since` is later than the start of the span if that has too many requests to look at. */
const counted = { since: time(), requests: count };

/** Conditions that an operator should look at. A list has at most 50 rows, the most urgent first. */
const Attention = Type.Object({
  low_accounts: Type.Array(LowAccount),
  expiring_keys: Type.Array(ExpiringKey),
  failing_providers: Type.Array(FailingProvider),
  old_holds: Type.Array(OldHold),
  estimated: Type.Object({ ...counted, charged_rub: Roubles }),
  write_offs: Type.Object({ ...counted, write_off_rub: Roubles }),
});

/** The answer of GET /api/overview. */
export type Overview = Static<typeof Overview>;
export const Overview = Type.Object({
  ...spanFields,
  now: SpanFigures,
  before: SpanFigures,
  series: Type.Object({ ...seriesFields, models: Type.Array(ModelSeries) }),
  top: Type.Object({
    accounts: Type.Array(Type.Object({ account: Type.String(), ...ranked })),
    keys: Type.Array(
      Type.Object({
        key_id: Type.String(),
        account: Type.String(),
        label: orNull(Type.String()),
        ...ranked,
      }),
    ),
    models: Type.Array(Type.Object({ model: Type.String(), ...ranked })),
    providers: Type.Array(
      Type.Object({
        provider: orNull(Type.String({ description: "Null: no provider answered." })),
        ...ranked,
      }),
    ),
  }),
  attention: Attention,
});
