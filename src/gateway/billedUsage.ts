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

/** The reported usage of an answer, and the size of what was generated. */
type AnswerFigures = Pick<
  AnswerDecoder,
  | "usage"
  | "isUsageFinal"
  | "usageText"
  | "usageProblem"
  | "expensiveService"
  | "providerCalls"
  | "textBytes"
  | "textDeltas"
  | "encryptedReasoningBytes"
>;

/**
 * The usage to charge for an answer: the reported usage if it counts the whole answer, else an estimate. A usage above the
 * model's limit is charged as reported, because tools of the provider or a wrong config can cause it. An implausible one
 * is not charged. `completionEstimate`: the completion tokens to charge if no report counts them.
 */
export function billedUsage(
  admission: Admission,
  answer: AnswerFigures,
  completionEstimate?: number,
): BilledUsage {
  const { usage, isUsageFinal, usageProblem, usageText } = answer;
  const isUsable = usage !== undefined && !isImplausible(usage);
  const problem = usage && !isUsable ? "implausible" : usageProblem;
  if (problem) admission.warnOfUsage(problem);
  if (answer.expensiveService !== undefined) admission.warnOfService(answer.expensiveService);
  if (isUsable) {
    if (usage.completionTokens > admission.modelTokensMax)
      admission.warnOfUsage("above model limit");
    if (isUsageFinal) return { tokens: usage, estimated: false };
  }
  const completionTokens = completionEstimate ?? textTokensOf(answer);
  if (!isUsable) return estimatedUsage(admission, completionTokens);
  return earlyUsage(admission, { usage, text: usageText }, completionTokens);
}

function textTokensOf({ textBytes, textDeltas }: AnswerFigures): number {
  return estimateGeneratedTokens({ bytes: textBytes, deltas: textDeltas });
}

/** What OpenAI bills for one web search at its fixed rate: https://platform.openai.com/docs/pricing */
const PROVIDER_CALL_TOKENS = 8_000;

/**
 * The usage to charge after a disconnect: that of the whole answer if it was reported, else an estimate of all that
 * arrived, with encrypted reasoning. The size of the results of the provider's tools is unknown then. Each of their
 * calls counts PROVIDER_CALL_TOKENS, up to the hold.
 */
export function disconnectUsage(admission: Admission, answer: AnswerFigures): BilledUsage {
  const { providerCalls = 0, encryptedReasoningBytes = 0 } = answer;
  const completionEstimate = textTokensOf(answer) + estimateTokens(encryptedReasoningBytes);
  const billed = billedUsage(admission, answer, completionEstimate);
  if (!billed.estimated || providerCalls === 0) return billed;
  const withCalls = billed.tokens.promptTokens + providerCalls * PROVIDER_CALL_TOKENS;
  const promptTokens = Math.min(withCalls, admission.tokenLimits.promptTokens);
  return { tokens: { ...billed.tokens, promptTokens }, estimated: true };
}

/** The estimate of the prompt and the given completion tokens, up to the hold. */
export function estimatedUsage(admission: Admission, completionTokens: number): BilledUsage {
  const { promptEstimate, tokenLimits } = admission;
  const tokens = estimateUsage(promptEstimate, completionTokens, tokenLimits);
  return { tokens, estimated: true };
}

/**
 * The prompt tokens that a request which continues this answer has before its own input: the prompt and the text of this
 * answer. Reasoning and results of the provider's tools are not part of the next prompt.
 */
export function historyTokensOf({ promptEstimate }: Admission, answer: AnswerFigures): number {
  const { usage, providerCalls = 0, textBytes } = answer;
  const isUsable = usage !== undefined && !isImplausible(usage);
  const promptTokens = (isUsable && providerCalls === 0 && usage.promptTokens) || promptEstimate;
  const textTokens = estimateTokens(textBytes);
  const completionTokens = isUsable ? Math.min(usage.completionTokens, textTokens) : textTokens;
  return promptTokens + completionTokens;
}

/**
 * The usage to charge if the last report, `usage`, came before the end of the answer, after `text`.
 *
 * The prompt tokens are those reported. Zero means unknown, because no prompt is empty. The reported completion tokens
 * replace the estimate of `text`, and the text after it is estimated. A report above the estimate of `text` may count
 * hidden reasoning or text that follows, so nothing is added to it: it is a lower bound for the whole answer. A report
 * that is too small for `text` is a placeholder, or counts something else. The result is cut to the hold.
 */
function earlyUsage(
  { promptEstimate, tokenLimits }: Admission,
  { usage, text }: { usage: Usage; text: GeneratedText | undefined },
  completionEstimate: number,
): BilledUsage {
  const promptTokens = usage.promptTokens || promptEstimate;
  const counted = usage.completionTokens;
  const countsText = text !== undefined && canCount(counted, text.bytes);
  const overestimate = countsText ? Math.max(0, estimateGeneratedTokens(text) - counted) : 0;
  const completionTokens = Math.max(counted, completionEstimate - overestimate);
  const tokens = withinTokenLimits({ ...usage, promptTokens, completionTokens }, tokenLimits);
  return { tokens, estimated: true };
}
