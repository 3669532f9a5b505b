import type { ModelConfig } from "../config/schema.ts";
import type { Gateway } from "./gateway.ts";

/**
 * What an operator must hear of a provider's figures:
 * - `implausible`: no answer has so many tokens; another figure of the provider's is charged, or the estimate
 * - `beyond the model`: more of a completion than the model can make; charged as reported
 * - `fallen`: less than the provider had reported before; the larger figures are charged
 */
export type UsageProblem = "implausible" | "beyond the model" | "fallen";

/** Tells of the figures of one request. */
export type UsageAlarm = (problem: UsageProblem) => void;

/** Nothing here may refer to a request's body: the alarm lives as long as its answer. */
export function usageAlarm(gateway: Gateway, requestId: string, { id }: ModelConfig): UsageAlarm {
  const fields = { request_id: requestId, model: id };
  return (problem) => {
    if (problem === "implausible") {
      gateway.log.error(
        "the provider reports a usage that cannot be, which is not charged",
        fields,
      );
    } else if (problem === "fallen") {
      gateway.log.warn("the provider reports less usage than before", fields);
    } else {
      gateway.log.warn("the provider reports more tokens than its model can make", fields);
    }
  };
}
