import {
  canCount,
  estimateGeneratedTokens,
  estimateTokens,
  estimateUsage,
  type GeneratedText,
  withinTokenLimits,
} from "../billing/estimate.ts";
import type { BilledUsage } from "../billing/meter.ts";
import { isImplausible, type Usage } from "../contract/usage.ts";
import type { Admission } from "./admission/admit.ts";
import type { AnswerDecoder } from "./decoding/answerDecoder.ts";

/** What was reported of an answer, and what was said in it. */
type AnswerFigures = Pick<
  AnswerDecoder,
  | "usage"
  | "isUsageFinal"
  | "usageText"
  | "usageProblem"
  | "providerCalls"
  | "textBytes"
  | "textDeltas"
  | "encryptedReasoningBytes"
>;

/**
 * What is billed of what was read of an answer: its usage, if that is the whole answer's, else an estimate. More than
 * the model can make by the config is charged as it was reported: a provider's own tools can bring that about, and
 * so can a config. What no answer can have is not. `completionEstimate`: the tokens of the completion, where no usable
 * figure has them.
 */
export function billedUsage(
  admission: Admission,
  answer: AnswerFigures,
  completionEstimate = textTokensOf(answer),
): BilledUsage {
  const { usage, isUsageFinal, usageProblem, usageText } = answer;
  const estimate = estimatedUsage(admission, completionEstimate);
  const isUsable = usage !== undefined && !isImplausible(usage);
  const problem = usage && !isUsable ? "implausible" : usageProblem;
  if (problem) admission.warnOfUsage(problem);
  if (!isUsable) return estimate;
  if (usage.completionTokens > admission.modelTokensMax) admission.warnOfUsage("above model limit");
  if (isUsageFinal) return { tokens: usage, estimated: false };
  return earlyUsage(admission, { usage, text: usageText }, completionEstimate);
}

function textTokensOf({ textBytes, textDeltas }: AnswerFigures): number {
  return estimateGeneratedTokens({ bytes: textBytes, deltas: textDeltas });
}

/** What OpenAI bills for a search where it bills all alike: https://platform.openai.com/docs/pricing */
const PROVIDER_CALL_TOKENS = 8_000;

/**
 * What is billed of an answer whose client left amid it: the usage of the whole, or else an estimate of all that had
 * come, encrypted thoughts too. How much the provider's own tools had brought into the prompt nobody knows by then, but
 * that it is paid for: each of their calls counts alike, up to what was held.
 */
export function disconnectUsage(admission: Admission, answer: AnswerFigures): BilledUsage {
  const { providerCalls = 0, encryptedReasoningBytes = 0 } = answer;
  const completionEstimate = textTokensOf(answer) + estimateTokens(encryptedReasoningBytes);
  const billed = billedUsage(admission, answer, completionEstimate);
  if (!billed.estimated || providerCalls === 0) return billed;
  const brought = billed.tokens.promptTokens + providerCalls * PROVIDER_CALL_TOKENS;
  const promptTokens = Math.min(brought, admission.tokenLimits.promptTokens);
  return { tokens: { ...billed.tokens, promptTokens }, estimated: true };
}

/** The estimate of a prompt, and so many tokens of answer, up to what was held. */
export function estimatedUsage(admission: Admission, completionTokens: number): BilledUsage {
  const { promptEstimate, tokenLimits } = admission;
  const tokens = estimateUsage(promptEstimate, completionTokens, tokenLimits);
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
 * What is billed of an answer whose last figure, `usage`, came before its end, behind `text`.
 *
 * The prompt is taken from the figure: a prompt always has tokens, so zero means unknown. The completion figure takes
 * the place of the estimate of the text before it, and the text after it is estimated. A larger figure may also count
 * reasoning that nobody sees, or text that is still to come, so it is never added to: the whole answer has at least so
 * many tokens. A figure that is too small for its text is a placeholder, or counts something else. As every estimate
 * this is cut to what was held.
 */
function earlyUsage(
  { promptEstimate, tokenLimits }: Admission,
  { usage, text }: { usage: Usage; text: GeneratedText | undefined },
  completionEstimate: number,
): BilledUsage {
  const promptTokens = usage.promptTokens || promptEstimate;
  const counted = usage.completionTokens;
  const countsText = text !== undefined && canCount(counted, text.bytes);
  const excess = countsText ? Math.max(0, estimateGeneratedTokens(text) - counted) : 0;
  const completionTokens = Math.max(counted, completionEstimate - excess);
  const tokens = withinTokenLimits({ ...usage, promptTokens, completionTokens }, tokenLimits);
  return { tokens, estimated: true };
}
