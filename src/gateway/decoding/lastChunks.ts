import type { ChatChunk } from "../../contract/chatAnswer.ts";
import { AnswerError, answerText } from "../../providers/provider.ts";
import { ANSWER_BYTES_MAX } from "./answerDecoder.ts";

/** What may be put by of a chat stream: of what comes before its content, and once more of its ends. */
export const PUT_BY_CHARACTERS_MAX = 2 * ANSWER_BYTES_MAX;

/** The chunks of a chat stream that bear a finish reason: they leave only after the charge. */
export class LastChunks {
  readonly #chunks: ChatChunk[] = [];
  #characters = 0;

  /** Takes what a client sees of one. Throws AnswerError for what cannot be written, and for ends without end. */
  add(shown: ChatChunk | undefined): void {
    if (!shown) return;
    // Written once now, so that writing it at the end, after the charge, cannot fail.
    this.#characters += answerText(shown).length;
    if (this.#characters > PUT_BY_CHARACTERS_MAX) {
      throw new AnswerError("the answer has too many ends");
    }
    this.#chunks.push(shown);
  }

  /** All of them, the last one as `complete` makes it. */
  completed(complete: (last: ChatChunk) => readonly ChatChunk[]): readonly ChatChunk[] {
    const last = this.#chunks.at(-1);
    return this.#chunks.flatMap((chunk) => (chunk === last ? complete(chunk) : chunk));
  }
}
