import { estimateTokens, estimateUsage, withinTokenLimits } from "../billing/estimate.ts";
import type { TokenLimits } from "../billing/cost.ts";
import type { BilledUsage } from "../billing/meter.ts";
import { isImplausible, type Usage } from "../contract/usage.ts";
import type { Admission } from "./admission/admit.ts";
import type { AnswerDecoder } from "./decoding/answerDecoder.ts";

/** What was reported of an answer, and what was said in it. */
type AnswerFigures = Pick<
  AnswerDecoder,
  "usage" | "isUsageFinal" | "usageProblem" | "providerCalls" | "textBytes" | "hiddenBytes"
>;

/**
 * What is billed of what was read of an answer: its usage, if that is the whole answer's, else an estimate. More than
 * the model can make by the config is charged as it was reported: a provider's own tools can bring that about, and
 * so can a config. What no answer can have is not.
 */
export function billedUsage(admission: Admission, answer: AnswerFigures): BilledUsage {
  const { usage, isUsageFinal, usageProblem, textBytes } = answer;
  const estimate = estimatedUsage(admission, textBytes);
  const isUsable = usage !== undefined && !isImplausible(usage);
  const problem = usage && !isUsable ? "implausible" : usageProblem;
  if (problem) admission.warnOfUsage(problem);
  if (!isUsable) return estimate;
  if (usage.completionTokens > admission.modelTokensMax) admission.warnOfUsage("beyond the model");
  if (isUsageFinal) return { tokens: usage, estimated: false };
  return atLeast(usage, estimate.tokens, admission.tokenLimits);
}

/** What OpenAI bills for a search where it bills all alike: https://platform.openai.com/docs/pricing */
const PROVIDER_CALL_TOKENS = 8_000;

/**
 * What is billed of an answer whose client left amid it: the usage of the whole, or else an estimate of all that had
 * come, encrypted thoughts too. How much the provider's own tools had brought into the prompt nobody knows by then, but
 * that it is paid for: each of their calls counts alike, up to what was held.
 */
export function disconnectUsage(admission: Admission, answer: AnswerFigures): BilledUsage {
  const { usage, isUsageFinal, usageProblem, providerCalls = 0 } = answer;
  const textBytes = answer.textBytes + (answer.hiddenBytes ?? 0);
  const billed = billedUsage(admission, { usage, isUsageFinal, usageProblem, textBytes });
  if (!billed.estimated || providerCalls === 0) return billed;
  const brought = billed.tokens.promptTokens + providerCalls * PROVIDER_CALL_TOKENS;
  const promptTokens = Math.min(brought, admission.tokenLimits.promptTokens);
  return { tokens: { ...billed.tokens, promptTokens }, estimated: true };
}

/** The estimate of a prompt and of so many bytes of answer. */
export function estimatedUsage(admission: Admission, textBytes: number): BilledUsage {
  const { promptEstimate, tokenLimits } = admission;
  const tokens = estimateUsage(promptEstimate, estimateTokens(textBytes), tokenLimits);
  return { tokens, estimated: true };
}

/**
 * What a request that continues this answer has in its prompt before its own input: this prompt and what was said in
 * the answer. Thoughts, and what a tool of the provider's brought in, were paid for, and are not told again.
 */
export function historyTokensOf({ promptEstimate }: Admission, answer: AnswerFigures): number {
  const { usage, providerCalls = 0, textBytes } = answer;
  const isUsable = usage !== undefined && !isImplausible(usage);
  const promptTokens = (isUsable && providerCalls === 0 && usage.promptTokens) || promptEstimate;
  const saidTokens = estimateTokens(textBytes);
  const completionTokens = isUsable ? Math.min(usage.completionTokens, saidTokens) : saidTokens;
  return promptTokens + completionTokens;
}

/**
 * A figure that came before the end is an early one: it is believed for the prompt, which is never without tokens, and
 * for the completion where it is not below the estimate, but as all that is estimated only up to what was held.
 */
function atLeast(early: Usage, estimate: Usage, tokenLimits: TokenLimits): BilledUsage {
  const promptTokens = early.promptTokens || estimate.promptTokens;
  const completionTokens = Math.max(early.completionTokens, estimate.completionTokens);
  const tokens = withinTokenLimits({ ...early, promptTokens, completionTokens }, tokenLimits);
  return { tokens, estimated: true };
}
