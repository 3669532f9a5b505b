import type { Span } from "../../lib/span.ts";
import { ChunkedBody } from "./chunkedBody.ts";
import {
  framingOf,
  keepsAlive,
  parseResponseHead,
  type Framing,
  type ResponseHead,
} from "./responseHead.ts";

/** Most bytes before the body: status line and headers, those of skipped 1xx responses included. */
export const HEAD_BYTES_MAX = 65_536;

const NOTHING: Span = { bytes: Buffer.alloc(0), start: 0, end: 0 };
const HEAD_END = "\r\n\r\n";
const HEAD_START = "HTTP/1.";
const LF = 0x0a;
const CR = 0x0d;

/**
 * Push decoder of one HTTP/1.1 response to a POST: bytes in, body bytes out; `head`, `hasEnded` and
 * `violation` say how far it got. It does no I/O and keeps no more than an unfinished head.
 *
 * It is strict. Of a response that could be read in two ways, the next request on the same connection
 * would get a part as its own answer.
 */
export class ResponseDecoder {
  /** Set once the final head is complete and its framing is sound. 1xx responses are skipped. */
  head: ResponseHead | undefined;
  /** The response came to its proper end. */
  hasEnded = false;
  /** Bytes came after the proper end. */
  hasSurplus = false;
  /** What is wrong with the response; nothing is decoded after it. */
  violation: string | undefined;
  #framing: Framing | undefined;
  #unfinishedHead: Buffer | undefined;
  #headBytes = 0;
  #remainingBytes = 0;
  #chunked: ChunkedBody | undefined;
  readonly #isBodyless: boolean;

  /** `isBodyless`: a successful response ends with its head, whatever its headers say (CONNECT). */
  constructor(options: { isBodyless: boolean } = { isBodyless: false }) {
    this.#isBodyless = options.isBodyless;
  }

  /** The response ended exactly, and the sender keeps the connection open for another request. */
  get isReusable(): boolean {
    return this.hasEnded && !this.hasSurplus && this.head !== undefined && keepsAlive(this.head)
      ? this.#framing?.kind !== "close"
      : false;
  }

  /**
   * Takes one network read and says where in it the body was, all together; often nothing.
   * The decoder takes `bytes` over: framing inside is overwritten.
   */
  push(bytes: Buffer): Span {
    if (this.violation !== undefined || bytes.length === 0) return NOTHING;
    if (this.#framing !== undefined) return this.#pushBody(bytes, 0);
    const input =
      this.#unfinishedHead === undefined ? bytes : Buffer.concat([this.#unfinishedHead, bytes]);
    const bodyStart = this.#pushHead(input);
    return this.#framing === undefined ? NOTHING : this.#pushBody(input, bodyStart);
  }

  /** The sender closed its side in good order. True if the response is complete. */
  finish(): boolean {
    if (this.violation === undefined && this.#framing?.kind === "close") this.hasEnded = true;
    return this.hasEnded;
  }

  /** Where the body starts, if the head is complete. */
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
      const head = parseResponseHead(input.toString("latin1", start, end));
      if (typeof head === "string") {
        this.violation = head;
      } else if (head.status === 101) {
        this.violation = "the response switches to a protocol that was not asked for";
      } else if (head.status >= 200) {
        this.#accept(head);
        return next;
      }
      start = next;
    }
    return 0;
  }

  /** Refuses at once what cannot become a head, instead of waiting for its end until a time-out. */
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
