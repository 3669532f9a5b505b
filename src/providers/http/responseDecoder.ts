import type { Span } from "../../lib/span.ts";
import { ChunkedBody } from "./chunkedBody.ts";

/** The most bytes of status line and headers, with those of skipped 1xx responses. */
export const HEAD_BYTES_MAX = 65_536;

const NOTHING: Span = { bytes: Buffer.alloc(0), start: 0, end: 0 };
const HEAD_END = "\r\n\r\n";
const HEAD_START = "HTTP/1.";
const LF = 0x0a;
const CR = 0x0d;

/**
 * Push decoder of one HTTP/1.1 response to a POST: takes network bytes, returns body bytes; `head`, `hasEnded` and
 * `violation` tell the state. It does no I/O and keeps only an unfinished head.
 * - It is strict: if a response could be read in two ways, its rest could become the answer of the next request.
 */
export class ResponseDecoder {
  /** The final head, once it is complete and its framing is valid. 1xx responses are skipped. */
  head: ResponseHead | undefined;
  hasEnded = false;
  /** Bytes came after the end. */
  hasSurplus = false;
  /** What is wrong with the response. Nothing is decoded after it. */
  violation: string | undefined;
  #framing: Framing | undefined;
  #unfinishedHead: Buffer | undefined;
  #headBytes = 0;
  #remainingBytes = 0;
  #chunked: ChunkedBody | undefined;
  readonly #isBodyless: boolean;

  /** `isBodyless`: a 2xx response ends with its head, whatever its headers say (CONNECT). */
  constructor(options: { isBodyless: boolean } = { isBodyless: false }) {
    this.#isBodyless = options.isBodyless;
  }

  /** The response ended exactly, and the sender keeps the connection open. */
  get isReusable(): boolean {
    const keepsAlive = this.head?.keepsAlive === true && this.#framing?.kind !== "close";
    return this.hasEnded && !this.hasSurplus && keepsAlive;
  }

  /**
   * Takes one network read. Returns where the body is in it, which may be empty. The decoder overwrites framing in
   * `bytes`.
   */
  push(bytes: Buffer): Span {
    if (this.violation !== undefined || bytes.length === 0) return NOTHING;
    if (this.#framing !== undefined) return this.#pushBody(bytes, 0);
    const input =
      this.#unfinishedHead === undefined ? bytes : Buffer.concat([this.#unfinishedHead, bytes]);
    const bodyStart = this.#pushHead(input);
    return this.#framing === undefined ? NOTHING : this.#pushBody(input, bodyStart);
  }

  /** The sender closed its side in order. True if the response is complete. */
  finish(): boolean {
    if (this.violation === undefined && this.#framing?.kind === "close") this.hasEnded = true;
    return this.hasEnded;
  }

  /** Returns the start of the body once the head is complete. */
  #pushHead(input: Buffer): number {
    let start = 0;
    while (this.violation === undefined) {
      const end = input.indexOf(HEAD_END, start);
      if (end < 0) {
        this.#keepUnfinished(start === 0 ? input : input.subarray(start));
        return 0;
      }
      const next = end + HEAD_END.length;
      this.#headBytes += next - start;
      if (this.#headBytes > HEAD_BYTES_MAX) {
        this.violation = "the response head is too large";
        return 0;
      }
      const text = input.toString("latin1", start, end);
      if (!HEAD.test(text)) {
        this.violation = "the response has a malformed head";
        return 0;
      }
      const head = new ResponseHead(text);
      if (head.status === 101) {
        this.violation = "the response switches to a protocol that was not asked for";
      } else if (head.status >= 200) {
        this.#accept(head);
        return next;
      }
      start = next;
    }
    return 0;
  }

  /** Refuses bytes that cannot become a head at once, instead of at the timeout. */
  #keepUnfinished(rest: Buffer): void {
    const prefix = rest.toString("latin1", 0, HEAD_START.length);
    const firstLF = rest.indexOf(LF);
    if (!HEAD_START.startsWith(prefix)) {
      this.violation = "the response does not start as HTTP/1.1";
    } else if (firstLF >= 0 && rest[firstLF - 1] !== CR) {
      this.violation = "the response has a line that does not end with CRLF";
    } else if (this.#headBytes + rest.length > HEAD_BYTES_MAX) {
      this.violation = "the response head is too large";
    }
    this.#unfinishedHead = rest;
  }

  #accept(head: ResponseHead): void {
    const hasSucceeded = head.status < 300;
    const framing: Framing | string =
      this.#isBodyless && hasSucceeded ? { kind: "none" } : framingOf(head);
    if (typeof framing === "string") {
      this.violation = framing;
      return;
    }
    this.#unfinishedHead = undefined;
    this.head = head;
    this.#framing = framing;
    if (framing.kind === "length") this.#remainingBytes = framing.bytes;
    else if (framing.kind === "chunked") this.#chunked = new ChunkedBody();
  }

  #pushBody(bytes: Buffer, start: number): Span {
    if (this.hasEnded) {
      this.hasSurplus ||= start < bytes.length;
      return NOTHING;
    }
    if (this.#chunked !== undefined) return this.#pushChunked(bytes, start, this.#chunked);
    if (this.#framing?.kind === "close") return { bytes, start, end: bytes.length };
    const end = Math.min(start + this.#remainingBytes, bytes.length);
    this.#remainingBytes -= end - start;
    this.hasEnded = this.#remainingBytes === 0;
    this.hasSurplus = end < bytes.length;
    return { bytes, start, end };
  }

  #pushChunked(bytes: Buffer, start: number, chunked: ChunkedBody): Span {
    const { payload, position } = chunked.push(bytes, start);
    if (chunked.isBroken) this.violation = "the response has a malformed chunk";
    this.hasEnded = chunked.hasEnded;
    this.hasSurplus = chunked.hasEnded && position < bytes.length;
    return payload;
  }
}

/** The status line and headers, with valid syntax. */
export class ResponseHead {
  readonly status: number;
  /** HTTP/1.0 or HTTP/1.1. */
  readonly minorVersion: 0 | 1;
  /** The sender keeps the connection open after this response. */
  readonly keepsAlive: boolean;
  #text: string;
  #lowerCase: string;

  /** `text` matches `HEAD`. */
  constructor(text: string) {
    this.status = Number(text.slice(STATUS_START, STATUS_START + 3));
    this.minorVersion = text.charCodeAt(HEAD_START.length) === DIGIT_ONE ? 1 : 0;
    this.#text = text;
    this.#lowerCase = text.toLowerCase();
    const connection = this.minorVersion === 0 ? "close" : this.header("connection");
    this.keepsAlive = connection === undefined || !CLOSES.test(connection);
  }

  /** Frees the memory of the headers. `header` finds none from now on. */
  dropHeaders(): void {
    this.#text = "";
    this.#lowerCase = "";
  }

  /** A header by lower-case name. Several values of one name are joined by ", ". */
  header(name: string): string | undefined {
    let joined: string | undefined;
    const sought = `\r\n${name}:`;
    for (
      let found = this.#lowerCase.indexOf(sought);
      found >= 0;
      found = this.#lowerCase.indexOf(sought, found + 2)
    ) {
      const start = found + sought.length;
      const end = this.#text.indexOf("\r\n", start);
      const value = trimmed(this.#text, start, end < 0 ? this.#text.length : end);
      joined = joined === undefined ? value : `${joined}, ${value}`;
    }
    return joined;
  }
}

/** How the end of the body is found: https://www.rfc-editor.org/rfc/rfc9112#section-6.3 */
export type Framing =
  | { readonly kind: "none" }
  | { readonly kind: "length"; readonly bytes: number }
  | { readonly kind: "chunked" }
  | { readonly kind: "close" };

/** A head without its empty last line. It refuses everything that two parsers could read in two ways. */
const HEAD =
  /^HTTP\/1\.[01] [1-9]\d\d(?: [\t\x20-\x7e\x80-\xff]*)?(?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*)*$/;
const CLOSES = /(?:^|[\s,])close(?:$|[\s,])/i;
const STATUS_START = "HTTP/1.1 ".length;
const DIGIT_ONE = 0x31;
const LENGTH = /^\d{1,15}$/;

/** `trim` would remove more than HTTP's blanks. */
function trimmed(text: string, start: number, end: number): string {
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** The framing of the body of a response to POST. A string describes the problem. */
function framingOf(head: ResponseHead): Framing | string {
  const transferEncoding = head.header("transfer-encoding");
  const contentLength = head.header("content-length");
  if (head.status === 204 || head.status === 304) return { kind: "none" };
  if (transferEncoding !== undefined) {
    if (contentLength !== undefined) {
      return "the response has both a content-length and a transfer-encoding";
    }
    if (head.minorVersion === 0 || transferEncoding.toLowerCase() !== "chunked") {
      return "the response has a transfer-encoding other than chunked";
    }
    return { kind: "chunked" };
  }
  if (contentLength === undefined) return { kind: "close" };
  // Some proxies send the same length twice, which is harmless. Two different lengths are an attack or a bug.
  const [first = "", ...others] = contentLength.split(/[\t ]*,[\t ]*/);
  if (!LENGTH.test(first) || others.some((other) => other !== first)) {
    return "the response has an invalid content-length";
  }
  return { kind: "length", bytes: Number(first) };
}
