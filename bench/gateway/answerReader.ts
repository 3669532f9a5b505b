const HEAD_END = "\r\n\r\n";
const EVENT_END = "\n\n";
/** The end of a chunked body; no event and no JSON text ends with it. */
const LAST_CHUNK = "0\r\n\r\n";
const LF = 0x0a;

/**
 * Reads the answers of one connection, as little of them as will do: it knows where an answer ends and
 * counts the events in it. It trusts the other side to speak HTTP.
 */
export class JsonAnswerReader {
  status = 0;
  isStream = false;
  /** Events that ended in the last read. */
  events = 0;
  #hasHead = false;
  #unfinishedHead = "";
  #remainingBytes: number | undefined;
  #tail = "";

  /** Takes one network read. Returns whether the answer is complete. */
  push(bytes: Buffer): boolean {
    this.events = 0;
    if (this.#hasHead) return this.#pushBody(bytes, 0);
    const text = this.#unfinishedHead + bytes.toString("latin1");
    const end = text.indexOf(HEAD_END);
    if (end < 0) {
      this.#unfinishedHead = text;
      return false;
    }
    this.#readHead(text.slice(0, end).toLowerCase());
    const bodyAt = end + HEAD_END.length - this.#unfinishedHead.length;
    this.#unfinishedHead = "";
    return this.#pushBody(bytes, Math.max(bodyAt, 0));
  }

  /** Gets ready for the next answer. */
  reset(): void {
    this.#hasHead = false;
    this.#tail = "";
  }

  #readHead(head: string): void {
    this.#hasHead = true;
    this.status = Number(head.slice(9, 12));
    this.isStream = head.includes("text/event-stream");
    const length = /content-length: *(\d+)/.exec(head)?.[1];
    this.#remainingBytes = length === undefined ? undefined : Number(length);
  }

  #pushBody(bytes: Buffer, start: number): boolean {
    if (this.isStream) this.#countEvents(bytes, start);
    if (this.#remainingBytes !== undefined) {
      this.#remainingBytes -= bytes.length - start;
      return this.#remainingBytes <= 0;
    }
    const body = start === 0 ? bytes : bytes.subarray(start);
    this.#tail = (this.#tail + body.toString("latin1", Math.max(0, body.length - 5))).slice(-5);
    return this.#tail === LAST_CHUNK;
  }

  #countEvents(bytes: Buffer, start: number): void {
    if (bytes[start] === LF && bytes[start + 1] !== LF && this.#tail.endsWith("\n")) {
      this.events += 1;
    }
    let at = bytes.indexOf(EVENT_END, start, "latin1");
    while (at >= 0) {
      this.events += 1;
      at = bytes.indexOf(EVENT_END, at + EVENT_END.length, "latin1");
    }
  }
}
