const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** A stream may begin with it: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream */
export const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const TAIL_BYTES_MIN = 1024;
const EMPTY = new Uint8Array(0);

/** Splits the bytes of one event stream into events, wherever the reads are cut. */
export interface SseSplitter {
  /**
   * Adds bytes and returns the events that they complete, in order. The `raw` of all events, with that of `end()` last,
   * are exactly the pushed bytes. Events may be views of `bytes`, so its memory must not be reused. Takes linear time: a
   * caller can push slices of a large read to keep the process responsive. Throws SseLimitError for an event over the
   * limit, after it has returned the events before it.
   */
  push(bytes: Uint8Array): SseEvent[];
  readonly isBetweenEvents: boolean;
  /** The incomplete event at the end of the stream; undefined if there is none. Throws like `push`. */
  end(): SseEvent | undefined;
}

/** An event is over the limit. The rest of the stream cannot be read. */
export class SseLimitError extends Error {
  override readonly name = "SseLimitError";
}

/** Makes the splitter of one stream. It buffers at most one event, of at most `eventBytesMax` bytes. */
export function createSseSplitter(options: { readonly eventBytesMax: number }): SseSplitter {
  return new Splitter(options.eventBytesMax);
}

/** The position in the event after the bytes so far. */
type Position = "before the first line" | "in a line" | "at a line start";

class Splitter implements SseSplitter {
  readonly #eventBytesMax: number;
  #position: Position = "before the first line";
  /** The last byte was a CR inside an event. An LF after it belongs to the same line end. */
  #afterCarriageReturn = false;
  #sawCarriageReturn = false;
  #isFirstEvent = true;
  /** The incomplete event's bytes from earlier pushes. The buffer doubles, so that small reads take linear time. */
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
    const tail = this.#tailBytes();
    this.#dropTail();
    return this.#event(tail, 0, tail.byteLength);
  }

  /** The index after the event's blank line, or -1. For streams without CR so far. */
  #findEndByLineFeeds(bytes: Uint8Array, from: number): number {
    let at = from;
    let position = this.#position;
    while (at < bytes.byteLength) {
      if (position !== "in a line" && bytes[at] === LINE_FEED) {
        at++;
        // Blank lines before an event's first line belong to it.
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

  /** Like `#findEndByLineFeeds`, for any mixture of LF, CR and CRLF. */
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
        // If the LF of a CRLF comes in the next push, it is a blank line before the next event, which has no effect.
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
    const whole = this.#tailBytes();
    this.#dropTail();
    return this.#event(whole, 0, whole.byteLength);
  }

  #event(bytes: Uint8Array, start: number, end: number): SseEvent {
    const hasMark =
      this.#isFirstEvent && BYTE_ORDER_MARK.every((byte, index) => bytes[start + index] === byte);
    this.#isFirstEvent = false;
    return new LazyEvent({
      bytes,
      start,
      end,
      fieldsStart: hasMark ? start + BYTE_ORDER_MARK.length : start,
      hasCarriageReturns: this.#sawCarriageReturn,
    });
  }

  #append(bytes: Uint8Array): void {
    const length = this.#tailLength + bytes.byteLength;
    if (length > this.#tail.byteLength) {
      const doubled = Math.min(this.#tailLength * 2, this.#eventBytesMax);
      const larger = new Uint8Array(Math.max(length, doubled, TAIL_BYTES_MIN));
      larger.set(this.#tailBytes());
      this.#tail = larger;
    }
    this.#tail.set(bytes, this.#tailLength);
    this.#tailLength = length;
  }

  #tailBytes(): Uint8Array {
    return this.#tail.subarray(0, this.#tailLength);
  }

  /** Drops the buffer without reuse: an event may be a view of it. */
  #dropTail(): void {
    this.#tail = EMPTY;
    this.#tailLength = 0;
  }

  /** Returns the events before the too large one. If there are none, throws now; otherwise the next call throws. */
  #fail(events: SseEvent[]): SseEvent[] {
    this.#failure = new SseLimitError(`an event is larger than ${this.#eventBytesMax} bytes`);
    this.#dropTail();
    if (events.length === 0) throw this.#failure;
    return events;
  }
}

const SPACE = 0x20;
const COLON = 0x3a;
const DATA = "data";
const EVENT = "event";
const ERROR = "error";

// Both keep a byte order mark. The one at the start of a stream is skipped elsewhere.
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

/** One event of a stream, read as https://html.spec.whatwg.org/multipage/server-sent-events.html says. */
export interface SseEvent {
  /** The last `event:` field. Invalid UTF-8 becomes U+FFFD, also in `error`. */
  readonly event: string | undefined;
  /** The `data:` lines joined by LF; undefined if there is none. Throws SseEncodingError on invalid UTF-8. */
  readonly data: string | undefined;
  /** The `data:` lines with U+FFFD for invalid UTF-8: for a reader that forwards the bytes unchanged. */
  readonly lenientData: string | undefined;
  /** The last `error:` field. It is not in the standard, but llama.cpp reports failures in it. */
  readonly error: string | undefined;
  /** The event's bytes with the blank line after it and any blank lines before it. Often a view of the pushed bytes. */
  readonly raw: Uint8Array;
}

/** The data of an event is not UTF-8. */
export class SseEncodingError extends Error {
  override readonly name = "SseEncodingError";
}

/** The bytes of an event. They must not change while the event is in use. */
export interface SseBlock {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
  /** The start of the fields: after a byte order mark, if there is one. */
  readonly fieldsStart: number;
  /** If false, every line ends with LF alone. */
  readonly hasCarriageReturns: boolean;
}

/** Decodes nothing before it is read, so that an unread event costs one small object. */
class LazyEvent implements SseEvent {
  readonly #block: SseBlock;
  #isRead = false;
  #event: string | undefined;
  #error: string | undefined;
  /** The data's bytes until they are decoded. */
  #encoded: Uint8Array | undefined;
  #data: string | undefined;
  #lenientData: string | undefined;

  constructor(block: SseBlock) {
    this.#block = block;
  }

  get raw(): Uint8Array {
    const { bytes, start, end } = this.#block;
    return start === 0 && end === bytes.byteLength ? bytes : bytes.subarray(start, end);
  }

  get event(): string | undefined {
    this.#read();
    return this.#event;
  }

  get error(): string | undefined {
    this.#read();
    return this.#error;
  }

  get data(): string | undefined {
    this.#read();
    if (this.#encoded !== undefined) {
      this.#data = decodeStrictly(this.#encoded);
      this.#encoded = undefined;
    }
    return this.#data;
  }

  get lenientData(): string | undefined {
    this.#read();
    if (this.#encoded !== undefined) this.#lenientData ??= lenient.decode(this.#encoded);
    return this.#data ?? this.#lenientData;
  }

  /** Finds the fields. `id`, `retry`, comments and unknown fields are ignored. */
  #read(): void {
    if (this.#isRead) return;
    this.#isRead = true;
    const { bytes, end, fieldsStart } = this.#block;
    let dataStart = -1;
    let dataEnd = -1;
    let spans: number[] | undefined;
    for (let at = fieldsStart; at < end;) {
      const lineEnd = endOfLine(this.#block, at);
      if (isField(bytes, at, lineEnd, DATA)) {
        const start = valueStart(bytes, at + DATA.length, lineEnd);
        if (dataStart >= 0) (spans ??= [dataStart, dataEnd]).push(start, lineEnd);
        dataStart = start;
        dataEnd = lineEnd;
      } else if (isField(bytes, at, lineEnd, EVENT)) {
        this.#event = valueText(bytes, at + EVENT.length, lineEnd);
      } else if (isField(bytes, at, lineEnd, ERROR)) {
        this.#error = valueText(bytes, at + ERROR.length, lineEnd);
      }
      at = lineEnd + 1;
    }
    if (spans !== undefined) this.#encoded = joinLines(bytes, spans);
    else if (dataStart >= 0) this.#encoded = bytes.subarray(dataStart, dataEnd);
  }
}

/** The end of the line at `at`, without its line end. After a CRLF follows an empty line. */
function endOfLine(block: SseBlock, at: number): number {
  const { bytes, end, hasCarriageReturns } = block;
  if (!hasCarriageReturns) {
    const lineFeed = bytes.indexOf(LINE_FEED, at);
    return lineFeed < 0 ? end : lineFeed;
  }
  let index = at;
  while (index < end && bytes[index] !== LINE_FEED && bytes[index] !== CARRIAGE_RETURN) index++;
  return index;
}

/** Whether the line is the field `name`, with or without a value. */
function isField(bytes: Uint8Array, at: number, lineEnd: number, name: string): boolean {
  const nameEnd = at + name.length;
  if (nameEnd < lineEnd && bytes[nameEnd] !== COLON) return false;
  for (let index = 0; index < name.length; index++) {
    if (bytes[at + index] !== name.charCodeAt(index)) return false;
  }
  return true;
}

/** The start of a field's value, after the colon and at most one space. */
function valueStart(bytes: Uint8Array, nameEnd: number, lineEnd: number): number {
  if (nameEnd >= lineEnd) return lineEnd;
  const start = nameEnd + 1;
  return bytes[start] === SPACE ? start + 1 : start;
}

function valueText(bytes: Uint8Array, nameEnd: number, lineEnd: number): string {
  return lenient.decode(bytes.subarray(valueStart(bytes, nameEnd, lineEnd), lineEnd));
}

/** Joins ranges (start, end, start, end ...) with LF. Copies single bytes, because a hostile event can have a million tiny lines. */
function joinLines(bytes: Uint8Array, spans: readonly number[]): Uint8Array {
  let length = spans.length / 2 - 1;
  for (let index = 0; index < spans.length; index += 2) {
    length += (spans[index + 1] ?? 0) - (spans[index] ?? 0);
  }
  const joined = new Uint8Array(length);
  let to = 0;
  for (let index = 0; index < spans.length; index += 2) {
    if (index > 0) joined[to++] = LINE_FEED;
    const end = spans[index + 1] ?? 0;
    for (let from = spans[index] ?? 0; from < end; from++) joined[to++] = bytes[from] ?? 0;
  }
  return joined;
}

function decodeStrictly(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch (cause) {
    throw new SseEncodingError("the data of an event is not UTF-8", { cause });
  }
}
