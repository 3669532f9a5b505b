import type { GeneratedText } from "../../billing/estimate.ts";
import { type Usage, hasDecreased, isImplausible, largerUsage } from "../../contract/usage.ts";
import type { UsageProblem } from "./answerDecoder.ts";

/**
 * The usage that a provider reports in one stream. Some servers report in every chunk, or report zeros until the
 * end. A report is final if it may be one of the whole answer and no text follows it.
 */
export class ReportedUsage {
  /** The largest figures so far. */
  usage: Usage | undefined;
  /** The text that had arrived when the completion tokens of `usage` last grew. */
  text: GeneratedText | undefined;
  problem: UsageProblem | undefined;
  /** The bytes of text that had arrived at the last report that may count the whole answer. */
  #countedBytes: number | undefined;
  /** The last report came in a chunk without choices and has completion tokens, so it is not a placeholder. */
  #isCountedAlone = false;

  /** Adds a report that came after `text`. `isAlone`: in a chunk without choices. */
  add(reported: Usage, text: GeneratedText, isAlone: boolean, mayBeWhole: boolean): void {
    this.#isCountedAlone = isAlone && reported.completionTokens > 0;
    if (isImplausible(reported)) {
      this.problem = "implausible";
      return;
    }
    if (this.usage && hasDecreased(this.usage, reported)) this.problem ??= "decreased";
    if (reported.completionTokens > (this.usage?.completionTokens ?? 0)) this.text = text;
    this.usage = this.usage ? largerUsage(this.usage, reported) : reported;
    if (mayBeWhole) this.#countedBytes = text.bytes;
  }

  /** Whether `usage` counts the whole answer, which has this many bytes of text. */
  isFinal(isFinished: boolean, textBytes: number): boolean {
    if (!isFinished && !this.#isCountedAlone) return false;
    return this.#countedBytes === textBytes;
  }
}
