import type { JsonFields } from "../../lib/json.ts";
import { walk } from "../../lib/walk.ts";

/** Where a chat's message has signed or hidden thoughts, as Anthropic's, Google's and OpenRouter's are given, and under which names. */
const SEALED_PLACES: ReadonlySet<string> = new Set([
  "thinking_blocks",
  "extra_content",
  "reasoning_details",
]);
const SEALED_FIELDS: ReadonlySet<string> = new Set(["signature", "data", "thought_signature"]);

/**
 * Thoughts that came encrypted: what a client that leaves has of them is as much a part of the answer as its text. They
 * are given in base64, of which four characters are three bytes, and the text in them has no more bytes than those, so
 * that counts at most what was thought. What also came as text is in there once more: it is counted once.
 */
export class SealedThoughts {
  #sealedCharacters = 0;
  #shownBytes = 0;

  /** So many characters of base64. */
  seal(characters: number): void {
    this.#sealedCharacters += characters;
  }

  /** So many UTF-8 bytes of thoughts, or of summaries of them, that came as text. */
  show(bytes: number): void {
    this.#shownBytes += bytes;
  }

  /** UTF-8 bytes of what was thought and not shown, at most. */
  get hiddenBytes(): number {
    return Math.max(0, Math.ceil((this.#sealedCharacters * 3) / 4) - this.#shownBytes);
  }
}

/** The characters of the encrypted thoughts that stand in a delta of a chat, where none of them counts as text. */
export function sealedCharacters(delta: JsonFields): number {
  let characters = 0;
  walk(delta, (found, name) => {
    if (name === undefined || !SEALED_PLACES.has(name)) return typeof found === "object";
    walk(found, (sealed, field) => {
      const isSealed = typeof sealed === "string" && field !== undefined;
      if (isSealed && SEALED_FIELDS.has(field)) characters += sealed.length;
      return typeof sealed === "object";
    });
    return false;
  });
  return characters;
}
