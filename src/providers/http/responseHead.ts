/** The status line and headers of a response, checked for syntax but not for sense. */
export interface ResponseHead {
  readonly status: number;
  /** HTTP/1.0 or HTTP/1.1. */
  readonly minorVersion: 0 | 1;
  /** Lower-case names; a header that stands several times has its values joined by ", ". */
  readonly headers: ReadonlyMap<string, string>;
}

/** How the end of the body is found: https://www.rfc-editor.org/rfc/rfc9112#section-6.3 */
export type Framing =
  | { readonly kind: "none" }
  | { readonly kind: "length"; readonly bytes: number }
  | { readonly kind: "chunked" }
  | { readonly kind: "close" };

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const FORBIDDEN_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const LENGTH = /^\d{1,15}$/;

/**
 * Reads a response head, given without the empty line that ends it. Lines end with CRLF and nothing
 * else; whatever two parsers could read in two ways is refused. A string is what is wrong with it.
 */
export function parseResponseHead(text: string): ResponseHead | string {
  let lineEnd = text.indexOf("\r\n");
  const statusLine = STATUS_LINE.exec(lineEnd < 0 ? text : text.slice(0, lineEnd));
  if (statusLine === null) return "the response has no valid status line";
  const headers = new Map<string, string>();
  while (lineEnd >= 0) {
    const start = lineEnd + 2;
    lineEnd = text.indexOf("\r\n", start);
    const colon = text.indexOf(":", start);
    const end = lineEnd < 0 ? text.length : lineEnd;
    const name = text.slice(start, colon);
    if (colon < 0 || !NAME.test(name)) return "the response has a malformed header";
    const value = trimmed(text, colon + 1, end);
    if (FORBIDDEN_IN_VALUE.test(value)) return "the response has a control character in a header";
    addHeader(headers, name.toLowerCase(), value);
  }
  return {
    status: Number(statusLine[2]),
    minorVersion: statusLine[1] === "1" ? 1 : 0,
    headers,
  };
}

/** The text between two positions without the blanks around it; `trim` would take more than HTTP's blanks. */
function trimmed(text: string, start: number, end: number): string {
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

function addHeader(headers: Map<string, string>, name: string, value: string): void {
  const before = headers.get(name);
  headers.set(name, before === undefined ? value : `${before}, ${value}`);
}

/** Decides how the body of a response to POST is framed. A string is what is wrong with the framing. */
export function framingOf(head: ResponseHead): Framing | string {
  const transferEncoding = head.headers.get("transfer-encoding");
  const contentLength = head.headers.get("content-length");
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
  // The same length sent twice is harmless, and some proxies do it; two lengths are an attack or a bug.
  const [first = "", ...others] = contentLength.split(/[\t ]*,[\t ]*/);
  if (!LENGTH.test(first) || others.some((other) => other !== first)) {
    return "the response has an invalid content-length";
  }
  return { kind: "length", bytes: Number(first) };
}

/** Whether the sender lets the connection serve another request after this response. */
export function keepsAlive(head: ResponseHead): boolean {
  if (head.minorVersion === 0) return false;
  const connection = head.headers.get("connection");
  return connection === undefined || !/(?:^|[\s,])close(?:$|[\s,])/i.test(connection);
}
