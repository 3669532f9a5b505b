import { changed } from "./byteChanges.ts";
import { weighed, type Chance } from "../seededRandom.ts";
import type { ValidRequest } from "./validRequests.ts";
import { several } from "../several.ts";

/** Bytes that HTTP may have much against. */
export interface MalformedRequest {
  readonly bytes: Buffer;
  /** The bytes are complete, or invalid: the server has nothing to wait for. */
  readonly isWhole: boolean;
}

/** Makes a valid request malformed. It must not be a HEAD: whether its answer has a body would be unclear. */
export function malformedRequest({ head, body }: ValidRequest, chance: Chance): MalformedRequest {
  const bytes = weighed<() => Buffer>(chance, [
    [6, () => changed(Buffer.concat([latin1(head), body]), chance)],
    // Most bytes of a request are its body, which the server does not parse. So the head gets its own share of changes.
    [6, () => Buffer.concat([changed(latin1(head), chance), body])],
    [4, () => Buffer.concat([latin1(chance.pick(brokenHeads)(head, chance)), body])],
    [3, () => Buffer.concat([latin1(chance.pick(brokenFramings)(head, chance)), body])],
    [1, () => latin1(chance.pick(noHttp)(chance))],
    // Bun 1.4.5 refuses trailers, which it should skip, after the request was served.
    [1, () => latin1(withTrailer(head, body, chance))],
  ])();
  return { bytes, isWhole: isWhole(bytes) };
}

function withTrailer(head: string, body: Buffer, chance: Chance): string {
  const trailer = chance.pick(["X-Trailer: a", "Authorization: Bearer x", "Content-Length: 5"]);
  const chunk = `${body.length.toString(16)}\r\n${body.toString("latin1")}\r\n`;
  const chunks = `${body.length > 0 ? chunk : ""}0\r\n${trailer}\r\n\r\n`;
  return withLine(unframed(head), "Transfer-Encoding: chunked") + chunks;
}

function latin1(text: string): Buffer {
  return Buffer.from(text, "latin1");
}

function withLine(head: string, line: string): string {
  return head.replace("\r\n", () => `\r\n${line}\r\n`);
}

const brokenHeads: readonly ((head: string, chance: Chance) => string)[] = [
  (head) => head.replaceAll("\r\n", "\n"),
  (head) => head.replace("\r\n", "\n"),
  (head) => head.replace("\r\n", "\r"),
  (head) => `\r\n${head}`,
  (head) => ` ${head}`,
  (head) => head.replace(/^(\S+) (\S+) /, "$1  $2 "),
  (head) => head.replace(/^(\S+) (\S+) /, "$1\t$2 "),
  (head) => head.replace(/^(\S+) (\S+) /, "$1 "),
  (head) => head.replace(/^\S+ \S+ /, ""),
  (head) => head.replace(/ HTTP\/1\.\d/, ""),
  (head, chance) =>
    head.replace(
      /HTTP\/1\.\d/,
      chance.pick([
        "HTTP/1.2",
        "HTTP/2.0",
        "HTTP/0.9",
        "HTTP/1.01",
        "http/1.1",
        "HTTPS/1.1",
        "HTTP/1.1 x",
      ]),
    ),
  (head, chance) =>
    head.replace(
      /^\S+/,
      chance.pick(["get", "Get", "G@T", "GET\0", "FOO", "M".repeat(300), "POST,GET"]),
    ),
  (head, chance) =>
    head.replace(
      / \S+ /,
      chance.pick([
        " * ",
        " v1/models ",
        " ?x ",
        " /a b ",
        " /\0 ",
        " /\x7f ",
        " http:// ",
        " :1 ",
        ` /${"a".repeat(20_000)} `,
      ]),
    ),
  (head) => head.replace(/host:[^\r]*\r\n/i, ""),
  (head) => withLine(head, "Host: a\r\nHost: b"),
  (head) => withLine(head, `X: ${"a".repeat(20_000)}`),
  (head) => withLine(head, several(300, (at) => `X-${at}: a`).join("\r\n")),
  (head, chance) => withLine(head, chance.pick(brokenLines)),
];

const brokenLines = [
  "X: a\r\n b",
  "X: a\r\n\tb",
  " X: a",
  "X : a",
  "X",
  ": a",
  "X: a\0b",
  "X: a\rb",
  "X: a\nb",
  "X: a\x7fb",
  "X\0: a",
  "X(: a",
  "\u00e9: a",
  "X\r\nY: a",
] as const;

const brokenFramings: readonly ((head: string, chance: Chance) => string)[] = [
  (head) => withLine(head, "Content-Length: 3"),
  (head) => withLine(head, "Content-Length: 0"),
  (head) => withLine(head, "Transfer-Encoding: chunked"),
  (head) => withLine(head, "Content-Length: 5\r\nTransfer-Encoding: chunked"),
  (head, chance) => withLine(unframed(head), `Content-Length: ${chance.pick(lengths)}`),
  (head, chance) => withLine(unframed(head), `Transfer-Encoding: ${chance.pick(codings)}`),
  (head) => unframed(head),
];

function unframed(head: string): string {
  return head.replace(/(content-length|transfer-encoding):[^\r]*\r\n/gi, "");
}

const lengths = [
  "",
  "-1",
  "+5",
  "1e1",
  "0x5",
  "5, 5",
  "5, 6",
  "5;6",
  "05",
  "5 5",
  "\u0665",
  "a",
  "18446744073709551616",
  "99999999999999999999999",
  "10000000000",
  "1",
  "1000",
] as const;
const codings = [
  "identity",
  "identity, chunked",
  "chunked, identity",
  "chunked, chunked",
  "gzip, chunked",
  "xchunked",
  "chunked;a=b",
  '"chunked"',
  "Chunked",
  "",
  ",",
  "chunked\r\nTransfer-Encoding: identity",
] as const;

const noHttp: readonly ((chance: Chance) => string)[] = [
  () => "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n",
  () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  () => "\r\n\r\n\r\n\r\n",
  () => "EHLO localhost\r\n\r\n",
  () => "GET /healthz\r\n\r\n",
  () =>
    "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
  () =>
    "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX\r\n",
  () =>
    "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
  () =>
    "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n\r\n",
  (chance) =>
    `${String.fromCharCode(...several(1 + chance.below(200), () => chance.below(256)))}\r\n\r\n`,
];

/** Whether a lenient server would wait for more; otherwise it must answer or close. */
function isWhole(bytes: Buffer): boolean {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd < 0) return false;
  const lines = bytes.toString("latin1", 0, headEnd).split("\r\n");
  const body = bytes.subarray(headEnd + 4);
  if (lines.some((line) => /^transfer-encoding:/i.test(line))) return areChunksOver(body);
  const declared = lines.flatMap(
    (line) => /^content-length:[ \t]*(\d+)[ \t]*$/i.exec(line)?.[1] ?? [],
  );
  return declared.every((length) => body.length >= Number(length));
}

/** The chunks have come to their end, or are none. */
function areChunksOver(body: Buffer): boolean {
  for (let at = 0; ;) {
    const lineEnd = body.indexOf("\r\n", at);
    if (lineEnd < 0) return false;
    const size = /^[0-9a-f]{1,15}/i.exec(body.toString("latin1", at, lineEnd))?.[0];
    if (size === undefined) return true;
    const length = Number.parseInt(size, 16);
    if (length === 0) return body.indexOf("\r\n\r\n", at) >= 0;
    at = lineEnd + 2 + length + 2;
    if (at > body.length) return false;
  }
}
