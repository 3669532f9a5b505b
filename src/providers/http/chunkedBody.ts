import type { Span } from "../../lib/span.ts";

/** The longest line before a chunk, with extensions. */
const CHUNK_LINE_BYTES_MAX = 4096;
/** Trailers are read to find the end of the body, and dropped. */
const TRAILER_BYTES_MAX = 16_384;
/** More hexadecimal digits could exceed the safe integers. */
const SIZE_DIGITS_MAX = 13;

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const SEMICOLON = 0x3b;

type State =
  | "size"
  | "extension"
  | "size LF"
  | "data"
  | "data CR"
  | "data LF"
  | "trailer start"
  | "trailer"
  | "trailer LF"
  | "last LF"
  | "ended"
  | "broken";

/** Push decoder of the chunked transfer coding: https://www.rfc-editor.org/rfc/rfc9112#section-7.1 */
export class ChunkedBody {
  #state: State = "size";
  #sizeBytes = 0;
  #sizeDigits = 0;
  #remainingBytes = 0;
  #lineBytes = 0;

  get hasEnded(): boolean {
    return this.#state === "ended";
  }

  get isBroken(): boolean {
    return this.#state === "broken";
  }

  /**
   * Decodes from `start` to the end of the body or to broken coding. Moves the payloads of all chunks in `bytes`
   * together, in place: one network read is one piece of the body, without a copy. Returns the payload, and the
   * position of the first byte that was not consumed.
   */
  push(bytes: Buffer, start: number): { payload: Span; position: number } {
    let position = start;
    let payloadStart = start;
    let payloadEnd = start;
    while (position < bytes.length && this.#state !== "ended" && this.#state !== "broken") {
      if (this.#state !== "data") {
        this.#step(bytes[position] ?? 0);
        position += 1;
        continue;
      }
      const end = Math.min(position + this.#remainingBytes, bytes.length);
      if (payloadStart === payloadEnd) {
        payloadStart = position;
        payloadEnd = end;
      } else {
        bytes.copyWithin(payloadEnd, position, end);
        payloadEnd += end - position;
      }
      this.#remainingBytes -= end - position;
      position = end;
      if (this.#remainingBytes === 0) this.#state = "data CR";
    }
    return { payload: { bytes, start: payloadStart, end: payloadEnd }, position };
  }

  #step(byte: number): void {
    switch (this.#state) {
      case "size":
        this.#stepSize(byte);
        return;
      case "extension":
        this.#stepText(byte, "extension", "size LF", CHUNK_LINE_BYTES_MAX);
        return;
      case "size LF":
        this.#expect(byte, LF, this.#sizeBytes === 0 ? "trailer start" : "data");
        this.#remainingBytes = this.#sizeBytes;
        this.#lineBytes = 0;
        return;
      case "data CR":
        this.#expect(byte, CR, "data LF");
        return;
      case "data LF":
        this.#expect(byte, LF, "size");
        this.#sizeBytes = 0;
        this.#sizeDigits = 0;
        return;
      case "trailer start":
        this.#stepText(byte, "trailer", "last LF", TRAILER_BYTES_MAX);
        return;
      case "trailer":
        this.#stepText(byte, "trailer", "trailer LF", TRAILER_BYTES_MAX);
        return;
      case "trailer LF":
        this.#expect(byte, LF, "trailer start");
        return;
      case "last LF":
        this.#expect(byte, LF, "ended");
        return;
      case "data":
      case "ended":
      case "broken":
        return;
    }
  }

  #expect(byte: number, expected: number, next: State): void {
    this.#state = byte === expected ? next : "broken";
  }

  #stepSize(byte: number): void {
    const digit = hexDigit(byte);
    if (digit >= 0) {
      this.#sizeBytes = this.#sizeBytes * 16 + digit;
      this.#sizeDigits += 1;
      if (this.#sizeDigits > SIZE_DIGITS_MAX) this.#state = "broken";
    } else if (this.#sizeDigits === 0) {
      this.#state = "broken";
    } else if (byte === CR) {
      this.#state = "size LF";
    } else if (byte === SEMICOLON || byte === SPACE || byte === TAB) {
      this.#state = "extension";
    } else {
      this.#state = "broken";
    }
  }

  /** Skips text up to its CR. Refuses a bare LF, which other parsers take for the end of the line. */
  #stepText(byte: number, more: State, afterCR: State, bytesMax: number): void {
    this.#lineBytes += 1;
    if (byte === CR) {
      this.#state = afterCR;
    } else if ((byte < SPACE && byte !== TAB) || byte === 0x7f || this.#lineBytes > bytesMax) {
      this.#state = "broken";
    } else {
      this.#state = more;
    }
  }
}

/** -1 for a byte that is no hexadecimal digit. */
function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
