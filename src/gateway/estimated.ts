import { estimateTokens, estimateUsage, withinCeiling } from "../billing/estimate.ts";
import type { BilledUsage } from "../billing/meter.ts";
import type { Admitted } from "./admit.ts";
import type { AnswerDecoder } from "./answerDecoder.ts";

/** The estimate of a prompt and of so many bytes of answer. */
export function estimatedUsage(admitted: Admitted, textBytes: number): BilledUsage {
  const { promptEstimate, ceiling } = admitted;
  const tokens = estimateUsage(promptEstimate, estimateTokens(textBytes), ceiling);
  return { tokens, estimated: true };
}

/**
 * What is billed of what was read of an answer: its usage, if that is the whole answer's, else an estimate. A figure
 * that came before the end is an early one: it is believed for the prompt, which is never without tokens, and for the
 * completion where it is not below the estimate, but as all that is estimated only up to what was held.
 */
export function readUsage(
  admitted: Admitted,
  answer: Pick<AnswerDecoder, "usage" | "isUsageFinal" | "textBytes">,
): BilledUsage {
  const { usage, isUsageFinal, textBytes } = answer;
  if (usage && isUsageFinal) return { tokens: usage, estimated: false };
  const estimate = estimatedUsage(admitted, textBytes);
  if (!usage) return estimate;
  const promptTokens = usage.promptTokens || estimate.tokens.promptTokens;
  const completionTokens = Math.max(usage.completionTokens, estimate.tokens.completionTokens);
  const tokens = withinCeiling({ ...usage, promptTokens, completionTokens }, admitted.ceiling);
  return { tokens, estimated: true };
}
