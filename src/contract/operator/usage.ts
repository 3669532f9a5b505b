import { Type, type Static } from "@sinclair/typebox";
import { formatRoubles } from "../../lib/money.ts";
import { usageForm, type UsageSums } from "../account/usageReport.ts";
import { Roubles, tokenCountFields } from "../answerFields.ts";

const group = Type.Optional(Type.String());

/** A row of a usage report. It has one of the first five fields: the group that the report sums by. */
export type UsageDocument = Static<typeof UsageDocument>;
export const UsageDocument = Type.Object({
  day: group,
  model: group,
  provider: group,
  account: group,
  key: group,
  requests: Type.Integer({ minimum: 0 }),
  ...tokenCountFields,
  cost_rub: Roubles,
  operator_cost_rub: Roubles,
  failed: Type.Integer({ minimum: 0 }),
  refunded_rub: Roubles,
});

/** `operatorCost` is nano-roubles: what the operator pays the providers, for routes with a configured cost. */
interface OperatorSums extends UsageSums {
  readonly operatorCost: bigint;
}

/** CSV has its columns in this order. New ones are added at the end. */
export function usageDocument(by: string, sums: OperatorSums): UsageDocument {
  const { failed, refunded_rub, cache_write_1h_tokens, web_searches, ...form } = usageForm(
    { [by]: sums.group },
    sums,
  );
  const operator_cost_rub = formatRoubles(sums.operatorCost);
  const later = { refunded_rub, cache_write_1h_tokens, web_searches };
  return { ...form, operator_cost_rub, failed, ...later };
}
