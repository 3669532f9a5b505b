import { hasFallen, isImplausible, largerUsage, type Usage } from "../../contract/usage.ts";
import type { UsageProblem } from "./answerDecoder.ts";

/**
 * What a provider reports of the usage of one chat stream. Some servers count in every chunk, or write zeros until the
 * end: a figure may be the whole answer's where the decoder says so, and is as long as no text follows.
 */
export class ReportedUsage {
  /** The largest figures so far. */
  usage: Usage | undefined;
  problem: UsageProblem | undefined;
  /** The bytes of text that had come when a usage came that may be the whole answer's. */
  #countedBytes: number | undefined;
  /**
   * The last report came in a chunk without choices and counts some completion: such a server means it, and does
   * not fill a field with zeros.
   */
  #isCountedAlone = false;

  /** A report that came when so much text was said; `isAlone`: in a chunk without choices. */
  add(reported: Usage, textBytes: number, isAlone: boolean, mayBeWhole: boolean): void {
    this.#isCountedAlone = isAlone && reported.completionTokens > 0;
    if (isImplausible(reported)) {
      this.problem = "implausible";
      return;
    }
    if (this.usage && hasFallen(this.usage, reported)) this.problem ??= "fallen";
    this.usage = this.usage ? largerUsage(this.usage, reported) : reported;
    if (mayBeWhole) this.#countedBytes = textBytes;
  }

  /** Whether `usage` is that of the whole answer, of which so much text was said. */
  isFinal(isFinished: boolean, textBytes: number): boolean {
    if (!isFinished && !this.#isCountedAlone) return false;
    return this.#countedBytes === textBytes;
  }
}
