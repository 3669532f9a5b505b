import { sseEvent, type SseEvent } from "./sseEvent.ts";

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** How a stream may open: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream */
export const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const TAIL_BYTES_MIN = 1024;
const EMPTY = new Uint8Array(0);

/** Cuts the bytes of one event stream into events, whatever the network did to their boundaries. */
export interface SseSplitter {
  /**
   * Takes the next bytes and returns the events that they complete, in order.
   * Concatenating the `raw` of every event, the one of `end()` behind the others, gives all bytes that were pushed.
   * Events are views of `bytes` where they can be, so its memory must not be reused. Takes time linear in `bytes`, so a
   * caller that must not hold up the process for long cuts a large read into slices: any cut gives the same events.
   * Throws SseLimitError once an event is larger than allowed; the events before it are returned first.
   */
  push(bytes: Uint8Array): SseEvent[];
  /** No event is open. */
  readonly isBetweenEvents: boolean;
  /** The event that the stream's end cut off; undefined where it ended cleanly. Throws as `push`. */
  end(): SseEvent | undefined;
}

/** An event is larger than the splitter may hold. The stream is of no further use. */
export class SseLimitError extends Error {
  override readonly name = "SseLimitError";
}

/** Makes the splitter of one stream. It holds at most one open event, of at most `eventBytesMax` bytes. */
export function createSseSplitter(options: { readonly eventBytesMax: number }): SseSplitter {
  return new Splitter(options.eventBytesMax);
}

/** Where in an event the bytes seen so far end. */
type Position = "before the first line" | "in a line" | "at a line start";

class Splitter implements SseSplitter {
  readonly #eventBytesMax: number;
  #position: Position = "before the first line";
  /** The last byte was a CR within an event: an LF that follows is the second half of one line end. */
  #afterCarriageReturn = false;
  #sawCarriageReturn = false;
  #isFirstEvent = true;
  /** The open event's bytes from earlier pushes, in a buffer that doubles, so that tiny pieces cost no more than large ones. */
  #tail = EMPTY;
  #tailLength = 0;
  #failure: SseLimitError | undefined;

  constructor(eventBytesMax: number) {
    this.#eventBytesMax = eventBytesMax;
  }

  push(bytes: Uint8Array): SseEvent[] {
    if (this.#failure !== undefined) throw this.#failure;
    const events: SseEvent[] = [];
    if (!this.#sawCarriageReturn) this.#sawCarriageReturn = bytes.indexOf(CARRIAGE_RETURN) >= 0;
    let start = 0;
    for (;;) {
      const end = this.#sawCarriageReturn
        ? this.#findEnd(bytes, start)
        : this.#findEndByLineFeeds(bytes, start);
      const isComplete = end >= 0;
      const length = this.#tailLength + (isComplete ? end : bytes.byteLength) - start;
      if (length > this.#eventBytesMax) return this.#fail(events);
      if (!isComplete) break;
      events.push(this.#take(bytes, start, end));
      start = end;
    }
    if (start < bytes.byteLength) this.#append(bytes.subarray(start));
    return events;
  }

  get isBetweenEvents(): boolean {
    return this.#tailLength === 0 && this.#failure === undefined;
  }

  end(): SseEvent | undefined {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#tailLength === 0) return undefined;
    const tail = this.#rest();
    this.#dropTail();
    return this.#event(tail, 0, tail.byteLength);
  }

  /** The index behind the event's blank line, or -1 with the position remembered. For streams in which no CR was seen. */
  #findEndByLineFeeds(bytes: Uint8Array, from: number): number {
    let at = from;
    let position = this.#position;
    while (at < bytes.byteLength) {
      if (position !== "in a line" && bytes[at] === LINE_FEED) {
        at++;
        // Blank lines before an event's first line belong to it: they end nothing.
        if (position === "before the first line") continue;
        this.#position = "before the first line";
        return at;
      }
      position = "in a line";
      const lineFeed = bytes.indexOf(LINE_FEED, at);
      if (lineFeed < 0) break;
      position = "at a line start";
      at = lineFeed + 1;
    }
    this.#position = position;
    return -1;
  }

  /** The same for LF, CR and CRLF, in any mixture. */
  #findEnd(bytes: Uint8Array, from: number): number {
    let position = this.#position;
    let afterCarriageReturn = this.#afterCarriageReturn;
    for (let at = from; at < bytes.byteLength; at++) {
      const byte = bytes[at];
      if (byte !== LINE_FEED && byte !== CARRIAGE_RETURN) {
        position = "in a line";
        afterCarriageReturn = false;
      } else if (byte === LINE_FEED && afterCarriageReturn) {
        afterCarriageReturn = false;
      } else if (position === "at a line start") {
        this.#position = "before the first line";
        // The LF of a CRLF goes with it if it is here, else it opens the next event as a blank line, which changes nothing.
        const isPair = byte === CARRIAGE_RETURN && bytes[at + 1] === LINE_FEED;
        return isPair ? at + 2 : at + 1;
      } else {
        if (position === "in a line") position = "at a line start";
        afterCarriageReturn = byte === CARRIAGE_RETURN;
      }
    }
    this.#position = position;
    this.#afterCarriageReturn = afterCarriageReturn;
    return -1;
  }

  #take(bytes: Uint8Array, start: number, end: number): SseEvent {
    if (this.#tailLength === 0) return this.#event(bytes, start, end);
    this.#append(bytes.subarray(start, end));
    const whole = this.#rest();
    this.#dropTail();
    return this.#event(whole, 0, whole.byteLength);
  }

  #event(bytes: Uint8Array, start: number, end: number): SseEvent {
    const hasMark =
      this.#isFirstEvent && BYTE_ORDER_MARK.every((byte, index) => bytes[start + index] === byte);
    this.#isFirstEvent = false;
    return sseEvent({
      bytes,
      start,
      end,
      fieldsStart: hasMark ? start + BYTE_ORDER_MARK.length : start,
      hasCarriageReturns: this.#sawCarriageReturn,
    });
  }

  #append(piece: Uint8Array): void {
    const length = this.#tailLength + piece.byteLength;
    if (length > this.#tail.byteLength) {
      const doubled = Math.min(this.#tailLength * 2, this.#eventBytesMax);
      const larger = new Uint8Array(Math.max(length, doubled, TAIL_BYTES_MIN));
      larger.set(this.#rest());
      this.#tail = larger;
    }
    this.#tail.set(piece, this.#tailLength);
    this.#tailLength = length;
  }

  #rest(): Uint8Array {
    return this.#tail.subarray(0, this.#tailLength);
  }

  /** Lets go of the tail's buffer, which belongs to an event now. */
  #dropTail(): void {
    this.#tail = EMPTY;
    this.#tailLength = 0;
  }

  /** The events before the one that is too large are good: the failure waits for the next call if there are any. */
  #fail(events: SseEvent[]): SseEvent[] {
    this.#failure = new SseLimitError(`an event is larger than ${this.#eventBytesMax} bytes`);
    this.#dropTail();
    if (events.length === 0) throw this.#failure;
    return events;
  }
}
