import { Type, type Static } from "@sinclair/typebox";
import { formatRoubles } from "../../lib/money.ts";
import {
  Receipt,
  receiptForm,
  requestFields,
  requestForm,
  type ShownReceipt,
  type ShownRequest,
} from "../account/receipt.ts";
import { orNull, Roubles } from "../answerFields.ts";

/** The fields of a request that only the operator sees. */
const operatorFields = {
  account: Type.String(),
  provider: orNull(Type.String({ description: "The provider of the last attempt." })),
  write_off_rub: Roubles,
  attempt_count: Type.Integer({ minimum: 0 }),
};

/** A request in a list. */
export type RequestDocument = Static<typeof RequestDocument>;
export const RequestDocument = Type.Object({ ...requestFields, ...operatorFields });

const Attempt = Type.Object({
  n: Type.Integer({ minimum: 1 }),
  provider: Type.String(),
  outcome: Type.String(),
  status: orNull(Type.Integer({ description: "The HTTP status, if the provider sent one." })),
  duration_ms: Type.Integer({ minimum: 0 }),
});

/** One request with its prices and its attempts, oldest first. */
export type RequestDetailDocument = Static<typeof RequestDetailDocument>;
export const RequestDetailDocument = Type.Object({
  ...Receipt.properties,
  ...operatorFields,
  hold_rub: Roubles,
  operator_cost_rub: orNull(Roubles),
  attempts: Type.Array(Attempt),
});

/** Amounts are nano-roubles. */
interface OperatorFields {
  readonly account: string;
  readonly provider: string | null;
  readonly writeOff: bigint;
  readonly attemptCount: number;
}

/** Amounts are nano-roubles. */
interface ShownDetail extends ShownReceipt, OperatorFields {
  readonly hold: bigint;
  /** What the operator pays the provider, for a route with a configured cost. */
  readonly operatorCost: bigint | null;
}

interface ShownAttempt {
  readonly provider: string;
  readonly outcome: string;
  readonly status: number | null;
  readonly durationMs: number;
}

export function requestDocument(request: ShownRequest & OperatorFields): RequestDocument {
  return { ...requestForm(request), ...operatorForm(request) };
}

export function requestDetailDocument(
  request: ShownDetail,
  attempts: readonly ShownAttempt[],
): RequestDetailDocument {
  return {
    ...receiptForm(request),
    ...operatorForm(request),
    hold_rub: formatRoubles(request.hold),
    operator_cost_rub: request.operatorCost === null ? null : formatRoubles(request.operatorCost),
    attempts: attempts.map((attempt, at) => ({
      n: at + 1,
      provider: attempt.provider,
      outcome: attempt.outcome,
      status: attempt.status,
      duration_ms: attempt.durationMs,
    })),
  };
}

function operatorForm(request: OperatorFields) {
  return {
    account: request.account,
    provider: request.provider,
    write_off_rub: formatRoubles(request.writeOff),
    attempt_count: request.attemptCount,
  };
}
