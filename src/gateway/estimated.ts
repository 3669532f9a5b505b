import { estimateTokens, estimateUsage, withinCeiling } from "../billing/estimate.ts";
import type { BilledUsage } from "../billing/meter.ts";
import type { Usage } from "../contract/usage.ts";
import type { Admitted } from "./admit.ts";
import type { AnswerDecoder } from "./answerDecoder.ts";

/** The estimate of a prompt and of so many bytes of answer. */
export function estimatedUsage(admitted: Admitted, textBytes: number): BilledUsage {
  const { promptEstimate, ceiling } = admitted;
  const tokens = estimateUsage(promptEstimate, estimateTokens(textBytes), ceiling);
  return { tokens, estimated: true };
}

/** What is billed of a whole answer: its usage, or what an estimate makes of what is missing of it. */
export function finishedUsage(
  admitted: Admitted,
  answer: Pick<AnswerDecoder, "usage" | "isUsageEarly" | "textBytes">,
): BilledUsage {
  const { usage, isUsageEarly, textBytes } = answer;
  if (usage && !isUsageEarly) return { tokens: usage, estimated: false };
  return partialUsage(admitted, textBytes, usage);
}

/**
 * What is billed of an answer that was not read to its end, or whose completion was never counted. A figure
 * that came before the end may be an early one: it is believed for the prompt, and for the completion where it
 * is not below the estimate, but as all that is estimated only up to what was held.
 */
export function partialUsage(
  admitted: Admitted,
  textBytes: number,
  reported: Usage | undefined,
): BilledUsage {
  const estimate = estimatedUsage(admitted, textBytes);
  if (!reported) return estimate;
  const completionTokens = Math.max(reported.completionTokens, estimate.tokens.completionTokens);
  const tokens = withinCeiling({ ...reported, completionTokens }, admitted.ceiling);
  return { tokens, estimated: true };
}
