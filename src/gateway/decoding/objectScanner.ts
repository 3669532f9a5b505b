/** Finds where a JSON object ends in a text that comes in pieces. It does not check the text. */
export class ObjectScanner {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isComplete = false;

  /** The object has ended. A text that is no object never ends. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  push(piece: string): void {
    for (let at = 0; at < piece.length && !this.#isComplete; at++) {
      const unit = piece.charCodeAt(at);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (unit === BACKSLASH) this.#isEscaped = this.#isInString;
      else if (unit === QUOTE) this.#isInString = !this.#isInString;
      else if (this.#isInString) continue;
      else if (unit === OPENING_BRACE) this.#depth += 1;
      else if (unit === CLOSING_BRACE) this.#isComplete = --this.#depth === 0;
    }
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;
