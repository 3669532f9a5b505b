const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
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
  readonly looseData: string | undefined;
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
export function sseEvent(block: SseBlock): SseEvent {
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
  #looseData: string | undefined;

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

  get looseData(): string | undefined {
    this.#read();
    if (this.#encoded !== undefined) this.#looseData ??= lenient.decode(this.#encoded);
    return this.#data ?? this.#looseData;
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
