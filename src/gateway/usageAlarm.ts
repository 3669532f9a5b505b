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
        "the provider reported an impossible usage: the gateway does not charge these figures",
        fields,
      );
    } else if (problem === "fallen") {
      gateway.log.warn("the provider reported less usage than earlier in the same answer", fields);
    } else {
      gateway.log.warn("the provider reported more tokens than the model can produce", fields);
    }
  };
}
