import { largerCounts, type OtherCounts } from "../contract/figures.ts";
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
import { ReportedFailure, type UpstreamError } from "../providers/upstream.ts";
import type { AnswerDecoder, UsageProblem } from "./decoding/answerDecoder.ts";
import type { AdmittedScope } from "./requestScope.ts";

/** The estimate of what a provider generated without sending it, in tokens. */
export interface HiddenGeneration {
  readonly tokens: number;
  /** The hidden tokens before the last report of usage. */
  readonly tokensAtUsage: number;
}

/** The reported usage of an answer, and the size of what was generated. */
type AnswerFigures = Pick<
  AnswerDecoder,
  | "usage"
  | "isUsageFinal"
  | "usageText"
  | "usageProblem"
  | "providerCalls"
  | "counts"
  | "textBytes"
  | "textDeltas"
  | "encryptedReasoningBytes"
>;

/**
 * The usage to charge for an answer: the reported usage if it counts the whole answer, else an estimate. A usage above
 * the model's limit is charged as reported, because tools of the provider or a wrong config can cause it. An
 * implausible one is not charged. `completionEstimate`: the completion tokens to charge if no report counts them.
 * `hidden`: the part of them that was not sent.
 */
export function billedUsage(
  scope: AdmittedScope,
  answer: AnswerFigures,
  completionEstimate?: number,
  hidden?: HiddenGeneration,
): BilledUsage {
  const { usage, isUsageFinal, usageProblem, usageText } = answer;
  const isUsable = usage !== undefined && !isImplausible(usage);
  const problem = usage && !isUsable ? "implausible" : usageProblem;
  if (problem) warnOfUsage(scope, problem);
  if (isUsable) {
    if (usage.completionTokens > scope.admitted.modelTokensMax)
      warnOfUsage(scope, "above model limit");
    if (isUsageFinal) return { tokens: usage, estimated: false };
  }
  const completionTokens = completionEstimate ?? textTokensOf(answer);
  if (!isUsable) return estimatedUsage(scope, completionTokens, answer.counts);
  const counted = usageText && estimateGeneratedTokens(usageText) + (hidden?.tokensAtUsage ?? 0);
  return earlyUsage(scope, { usage, text: usageText, estimate: counted }, completionTokens);
}

function textTokensOf({ textBytes, textDeltas }: AnswerFigures): number {
  return estimateGeneratedTokens({ bytes: textBytes, deltas: textDeltas });
}

/** The estimate of all that a model generated: the text that arrived, and what is hidden. */
export function generatedTokensOf(
  answer: Pick<AnswerDecoder, "textBytes" | "textDeltas" | "encryptedReasoningBytes">,
  hiddenTokens = 0,
): number {
  const { textBytes, textDeltas, encryptedReasoningBytes = 0 } = answer;
  // Two estimates of the same reasoning: by the time that it took, and by its encrypted form.
  const hidden = Math.max(hiddenTokens, estimateTokens(encryptedReasoningBytes));
  return estimateGeneratedTokens({ bytes: textBytes, deltas: textDeltas }) + hidden;
}

/** The usage of an answer that its provider reports as failed is charged where text of it was delivered. */
export function isFailureBilled({
  usage,
  textBytes,
}: Pick<AnswerDecoder, "usage" | "textBytes">): boolean {
  return usage !== undefined && textBytes > 0;
}

/**
 * The usage to charge for an answer whose provider reports a failure and its usage, where text of it was delivered. Undefined
 * for any other failure: it is not charged.
 */
export function reportedWithFailure(
  scope: AdmittedScope,
  { cause }: UpstreamError,
  answer: AnswerFigures,
): BilledUsage | undefined {
  if (!(cause instanceof ReportedFailure) || answer.textBytes === 0) return undefined;
  const usage = cause.usage ?? (answer.isUsageFinal ? answer.usage : undefined);
  return usage && billedUsage(scope, { usage, isUsageFinal: true, textBytes: answer.textBytes });
}

/** What OpenAI bills for one web search at its fixed rate: https://platform.openai.com/docs/pricing */
const PROVIDER_CALL_TOKENS = 8_000;

/**
 * The usage to charge after a disconnect: that of the whole answer if it was reported, else an estimate of all that
 * arrived, and of what was generated without being sent. The size of the results of the provider's tools is unknown then.
 * Each of their calls counts PROVIDER_CALL_TOKENS, and what was seen of what is billed one by one is charged, up to the hold.
 */
export function disconnectUsage(
  scope: AdmittedScope,
  answer: AnswerFigures,
  hidden: HiddenGeneration,
): BilledUsage {
  const { providerCalls = 0, counts } = answer;
  const completionEstimate = generatedTokensOf(answer, hidden.tokens);
  const billed = billedUsage(scope, answer, completionEstimate, hidden);
  if (!billed.estimated) return billed;
  const tokens = {
    ...billed.tokens,
    ...largerCounts(billed.tokens, counts),
    promptTokens: billed.tokens.promptTokens + providerCalls * PROVIDER_CALL_TOKENS,
  };
  return { tokens: withinTokenLimits(tokens, scope.admitted.tokenLimits), estimated: true };
}

/** The estimate of the prompt, with the most that files and pictures in it can hold. */
function promptTokensOf({ checked }: AdmittedScope): number {
  return checked.promptEstimate + checked.attachmentTokens;
}

/** The estimate of the prompt, the given completion tokens and what the provider's tools used, up to the hold. */
export function estimatedUsage(
  scope: AdmittedScope,
  completionTokens: number,
  counts: OtherCounts = {},
): BilledUsage {
  const { tokenLimits } = scope.admitted;
  const tokens = estimateUsage(promptTokensOf(scope), completionTokens, tokenLimits);
  return { tokens: withinTokenLimits({ ...tokens, ...counts }, tokenLimits), estimated: true };
}

/**
 * The prompt tokens that a request which continues this answer has before its own input: the prompt and the text of this
 * answer. Reasoning and results of the provider's tools are not part of the next prompt.
 */
export function historyTokensOf({ checked }: AdmittedScope, answer: AnswerFigures): number {
  const { usage, providerCalls = 0, textBytes } = answer;
  const isUsable = usage !== undefined && !isImplausible(usage);
  const promptTokens =
    (isUsable && providerCalls === 0 && usage.promptTokens) || checked.promptEstimate;
  const textTokens = estimateTokens(textBytes);
  const completionTokens = isUsable ? Math.min(usage.completionTokens, textTokens) : textTokens;
  return promptTokens + completionTokens;
}

/**
 * The usage to charge if the last report, `usage`, came before the end of the answer, after `text`. `estimate`: what was
 * generated until then, by the estimate.
 *
 * The prompt tokens are those reported. Zero means unknown, because no prompt is empty. The reported completion tokens
 * replace that estimate, and the text after it is estimated. A report above the estimate of `text` may count
 * hidden reasoning or text that follows, so nothing is added to it: it is a lower bound for the whole answer. A report
 * that is too small for `text` is a placeholder, or counts something else. The result is cut to the hold.
 */
function earlyUsage(
  scope: AdmittedScope,
  report: { usage: Usage; text: GeneratedText | undefined; estimate: number | undefined },
  completionEstimate: number,
): BilledUsage {
  const { usage, text, estimate = 0 } = report;
  const promptTokens = usage.promptTokens || promptTokensOf(scope);
  const counted = usage.completionTokens;
  const countsText = text !== undefined && canCount(counted, text.bytes);
  const overestimate = countsText ? Math.max(0, estimate - counted) : 0;
  const completionTokens = Math.max(counted, completionEstimate - overestimate);
  const tokens = withinTokenLimits(
    { ...usage, promptTokens, completionTokens },
    scope.admitted.tokenLimits,
  );
  return { tokens, estimated: true };
}

const USAGE_EVENTS = {
  implausible: "usage_impossible",
  decreased: "usage_decreased",
  "total above its parts": "usage_total_larger",
  "above model limit": "usage_above_maximum",
} as const;

function warnOfUsage({ gateway, requestId, checked }: AdmittedScope, problem: UsageProblem): void {
  const fields = { request_id: requestId, model: checked.models[0].config.id };
  const event = USAGE_EVENTS[problem];
  if (event === "usage_impossible") gateway.log.error(event, fields);
  else gateway.log.warn(event, fields);
}
