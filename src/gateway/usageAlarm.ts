import type { ModelConfig } from "../config/schema.ts";
import type { UsageProblem } from "./decoding/answerDecoder.ts";
import type { Gateway } from "./gateway.ts";

/** Tells of the figures of one request. */
export type UsageAlarm = (problem: UsageProblem) => void;

/** A function of its own, for the alarm lives as long as its answer (of closures: gateway.ts). */
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
