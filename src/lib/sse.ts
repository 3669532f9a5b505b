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

const SPACE = 0x20;
const COLON = 0x3a;
const DATA = "data";
const EVENT = "event";
const ERROR = "error";

// Both keep a byte order mark: the only one that is not text opens the stream, and is stepped over there.
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

/** One event of a stream, read as https://html.spec.whatwg.org/multipage/server-sent-events.html says. */
export interface SseEvent {
  /** The last `event:` field; undefined where there is none. Bytes that are not UTF-8 read as U+FFFD, as in `error`. */
  readonly event: string | undefined;
  /** The `data:` lines joined by LF; undefined for a block without one. Reading it throws SseEncodingError on invalid UTF-8. */
  readonly data: string | undefined;
  /** The same for who hands on the bytes and only looks: what is not UTF-8 reads as U+FFFD. */
  readonly lenientData: string | undefined;
  /** The last field `error`. The standard has none, but servers of llama.cpp report so that they failed. */
  readonly error: string | undefined;
  /** The provider's bytes with the blank line that ends the event, and any blank lines before it. Often a view of what was pushed. */
  readonly raw: Uint8Array;
}

/** The data of an event is not UTF-8. Only the reader of that data can say whether it matters. */
export class SseEncodingError extends Error {
  override readonly name = "SseEncodingError";
}

/** Where an event stands. The bytes must not change as long as the event is used. */
export interface SseBlock {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
  /** Where its first field may begin: behind `start` where a byte order mark opens the stream. */
  readonly fieldsStart: number;
  /** False promises that each line ends with LF alone. */
  readonly hasCarriageReturns: boolean;
}

/** The event of a block. Nothing is decoded before it is asked for: an event that passes unread costs one small object. */
function sseEvent(block: SseBlock): SseEvent {
  return new LazyEvent(block);
}

class LazyEvent implements SseEvent {
  readonly #block: SseBlock;
  #isRead = false;
  #event: string | undefined;
  #error: string | undefined;
  /** The data's bytes until it is decoded. */
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

  /** Finds the fields that matter here; `id`, `retry`, comments and unknown ones do not. */
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

/** Where the line that begins at `at` ends: the index of its line end, or the end of the block. CRLF leaves an empty line behind. */
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

/** True when the line is the field `name`, with a value or without one. */
function isField(bytes: Uint8Array, at: number, lineEnd: number, name: string): boolean {
  const nameEnd = at + name.length;
  if (nameEnd < lineEnd && bytes[nameEnd] !== COLON) return false;
  for (let index = 0; index < name.length; index++) {
    if (bytes[at + index] !== name.charCodeAt(index)) return false;
  }
  return true;
}

/** Where a field's value begins: behind the colon and at most one space. */
function valueStart(bytes: Uint8Array, nameEnd: number, lineEnd: number): number {
  if (nameEnd >= lineEnd) return lineEnd;
  const start = nameEnd + 1;
  return bytes[start] === SPACE ? start + 1 : start;
}

/** The value of a field that is no data. */
function valueText(bytes: Uint8Array, nameEnd: number, lineEnd: number): string {
  return lenient.decode(bytes.subarray(valueStart(bytes, nameEnd, lineEnd), lineEnd));
}

/** Joins the spans (start, end, start, end ...) with LF. Bytes are copied one by one: a hostile event has a million tiny lines. */
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
