import { Type, type Static } from "@sinclair/typebox";
import { formatRoubles } from "../../lib/money.ts";
import { usageForm, type UsageSums } from "../account/usageReport.ts";
import { countFields, Roubles } from "../answerFields.ts";
import { lastCsvFields } from "../figures.ts";

const extras: ReadonlySet<string> = new Set(lastCsvFields);
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
  ...countFields,
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
  const { failed, refunded_rub, ...form } = usageForm({ [by]: sums.group }, sums);
  const operator_cost_rub = formatRoubles(sums.operatorCost);
  const document: UsageDocument = { ...form, operator_cost_rub, failed, refunded_rub };
  const isLast = ([field]: readonly [string, unknown]) => Number(extras.has(field));
  const fields = Object.entries(document).toSorted((one, other) => isLast(one) - isLast(other));
  return Object.fromEntries(fields) as UsageDocument;
}
