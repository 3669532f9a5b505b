import type { ChatChunk } from "../../contract/chatAnswer.ts";
import { answerText } from "../../providers/provider.ts";

/** Far more than any provider has. */
const CARRIED_FIELDS_MAX = 64;
const CARRIED_BYTES_MAX = 1024 * 1024;

/** What every chunk says for itself, and what only makes it longer, so that its length tells nothing. */
const NOT_CARRIED: ReadonlySet<string> = new Set([
  "id",
  "object",
  "created",
  "model",
  "choices",
  "usage",
  "obfuscation",
]);

/**
 * What the chunks without choices say of an answer, such as `prompt_filter_results` of Azure's: a client never sees
 * these chunks, and finds it on the next that has choices. Beyond 64 fields, or a megabyte, it is dropped.
 */
export class CarriedFields {
  #fields = new Map<string, unknown>();
  #bytes = 0;

  /** Nothing is on its way. */
  get isEmpty(): boolean {
    return this.#fields.size === 0;
  }

  /** Takes the fields of a chunk that has no choices. Throws AnswerError for what cannot be written. */
  add(chunk: ChatChunk): void {
    for (const [name, value] of Object.entries(chunk)) {
      if (NOT_CARRIED.has(name) || value === null) continue;
      this.#bytes += Buffer.byteLength(answerText({ [name]: value }));
      const isFull = this.#fields.size === CARRIED_FIELDS_MAX && !this.#fields.has(name);
      if (isFull || this.#bytes > CARRIED_BYTES_MAX) continue;
      this.#fields.set(name, value);
    }
  }

  /** The chunk with what was taken so far, which is not given out again. What the chunk itself says counts. */
  giveTo(chunk: ChatChunk): ChatChunk {
    if (this.isEmpty) return chunk;
    const bearing = { ...Object.fromEntries(this.#fields), ...chunk };
    this.#fields = new Map();
    this.#bytes = 0;
    return bearing;
  }
}
