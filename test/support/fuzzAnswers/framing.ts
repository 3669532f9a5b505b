import { changed } from "../fuzz/byteChanges.ts";
import { weighed, type Chance } from "../seededRandom.ts";
import { several } from "../several.ts";

/** An answer as it travels. */
export interface Framed {
  readonly bytes: Buffer;
  /** Where the body begins. */
  readonly headBytes: number;
  readonly way: FramingWay;
}

/** How a reader finds the end: by the length, by chunks, or by the close of the connection. */
export type FramingWay = "length" | "chunked" | "close";

/** Headers of a provider that no client may see: each contains `canary`. */
const itsHeaders = [
  "Set-Cookie: session=canary",
  "OpenAI-Organization: org-canary",
  "X-RateLimit-Limit-Requests: 5-canary",
  "X-Request-Id: req_canary",
  "X-Tollgate-Cost-Rub: canary",
  "Server: canary",
  "Cache-Control: public, canary",
  "Via: 1.1 canary",
  "Access-Control-Allow-Origin: canary",
] as const;
const early = [
  "HTTP/1.1 100 Continue\r\n\r\n",
  "HTTP/1.1 103 Early Hints\r\nLink: <canary>\r\n\r\n",
];

export interface AnswerHead {
  readonly status: number;
  readonly contentType: string;
}

export function headOf(isStream: boolean, chance: Chance): AnswerHead {
  const json = ["application/json", "application/json; charset=utf-8", "Application/JSON"] as const;
  const events = ["text/event-stream", "text/event-stream; charset=utf-8"] as const;
  return { status: 200, contentType: chance.pick(isStream ? events : json) };
}

/** Puts valid framing around a body, in one of these ways. */
export function framed(
  { status, contentType }: AnswerHead,
  body: Buffer,
  chance: Chance,
  ways: readonly FramingWay[] = ["length", "length", "chunked", "chunked", "close"],
): Framed {
  const way = chance.pick(ways);
  const version = way === "close" && chance.chance(0.3) ? "HTTP/1.0" : "HTTP/1.1";
  const lines = [
    `Content-Type: ${contentType}`,
    ...itsHeaders.filter(() => chance.chance(0.2)),
    ...(way === "length" ? [`Content-Length: ${body.length}`] : []),
    ...(way === "chunked" ? ["Transfer-Encoding: chunked"] : []),
    ...(way === "close" && chance.chance(0.5) ? ["Connection: close"] : []),
  ].map((line) => (chance.chance(0.2) ? line.toLowerCase() : line));
  const hint = chance.chance(0.03) ? chance.pick(early) : "";
  const reason = chance.pick([" OK", " ", "", " \u00e9 other"]);
  const head = `${hint}${version} ${status}${reason}\r\n${lines.join("\r\n")}\r\n\r\n`;
  const payload = way === "chunked" ? inChunks(body, chance) : body;
  return {
    bytes: Buffer.concat([Buffer.from(head, "latin1"), payload]),
    headBytes: head.length,
    way,
  };
}

function inChunks(body: Buffer, chance: Chance): Buffer {
  const extension = chance.pick(["", "", "", ";a=b", "  "]);
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length;) {
    const end = Math.min(body.length, at + 1 + chance.below(Math.max(body.length / 2, 20)));
    const size = (end - at).toString(16);
    const zeros = chance.chance(0.05) ? "000" : "";
    pieces.push(Buffer.from(`${zeros}${size}${extension}\r\n`), body.subarray(at, end));
    pieces.push(Buffer.from("\r\n"));
    at = end;
  }
  const trailer = chance.chance(0.1) ? "Set-Cookie: canary\r\n" : "";
  return Buffer.concat([...pieces, Buffer.from(`0\r\n${trailer}\r\n`)]);
}

/** Framing that is invalid, or that two readers could understand differently. */
export function malformedFraming(body: Buffer, isStream: boolean, chance: Chance): Buffer {
  const sound = (): Buffer => framed(headOf(isStream, chance), body, chance).bytes;
  return weighed<() => Buffer>(chance, [
    [4, () => changed(sound(), chance)],
    [3, () => changedHead(sound(), chance)],
    [3, () => withLengthLines(body, isStream, chance)],
    [3, () => inOddChunks(body, isStream, chance)],
    [3, () => withOddLine(sound(), chance)],
    [1, () => Buffer.from(several(chance.below(300), () => chance.below(256)))],
    [1, () => Buffer.from(chance.pick(noHttp), "latin1")],
  ])();
}

function changedHead(bytes: Buffer, chance: Chance): Buffer {
  const headEnd = bytes.indexOf("\r\n\r\n") + 4;
  const head = changed(bytes.subarray(0, headEnd), chance);
  return Buffer.concat([head, bytes.subarray(headEnd)]);
}

function withLines(lines: readonly string[], isStream: boolean, payload: Buffer): Buffer {
  const type = isStream ? "text/event-stream" : "application/json";
  const head = ["HTTP/1.1 200 OK", `Content-Type: ${type}`, ...lines].join("\r\n");
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n`, "latin1"), payload]);
}

function withLengthLines(body: Buffer, isStream: boolean, chance: Chance): Buffer {
  const near = String(Math.max(0, body.length - 20 + chance.below(40)));
  const { length } = body;
  const lines = chance.pick([
    [`Content-Length: ${near}`],
    ["Content-Length: 0"],
    ["Content-Length: 999999999999999"],
    ["Content-Length: 18446744073709551617"],
    ["Content-Length: -1"],
    [`Content-Length: ${length}.0`],
    [`Content-Length: 0x${length.toString(16)}`],
    [`Content-Length: +${length}`],
    ["Content-Length:"],
    [`Content-Length: ${length}`, `Content-Length: ${length}`],
    [`Content-Length: ${length}`, `Content-Length: ${near}`],
    [`Content-Length: ${length}, ${near}`],
    [`Content-Length: ${length}`, "Transfer-Encoding: chunked"],
    [`Content-Length: ${length}`, "Transfer-Encoding: identity"],
    ["Transfer-Encoding: gzip, chunked"],
    ["Transfer-Encoding: chunked, chunked"],
    ["Transfer-Encoding: xchunked"],
    ["Transfer-Encoding: chunked"],
  ]);
  return withLines(lines, isStream, body);
}

/** Chunks, one of them malformed. */
function inOddChunks(body: Buffer, isStream: boolean, chance: Chance): Buffer {
  const sizes = chance.pick([
    (size: number) => (size + 1).toString(16),
    (size: number) => Math.max(size - 1, 0).toString(16),
    () => "ffffffffffffffff",
    () => "7fffffffffffffff",
    () => "-1",
    () => "",
    () => "0",
    (size: number) => `0x${size.toString(16)}`,
    (size: number) => ` ${size.toString(16)}`,
    (size: number) => `${size.toString(16)};${"a".repeat(5000)}`,
    (size: number) => `${size.toString(16)};\n`,
  ]);
  const half = chance.below(body.length + 1);
  const lineEnd = chance.chance(0.2) ? "\n" : "\r\n";
  const end = chance.pick(["0\r\n\r\n", "0\r\n", "", "0\n\n", "0\r\nno trailer\n\r\n", "00"]);
  const piece = (part: Buffer, size: string): Buffer[] =>
    part.length === 0 ? [] : [Buffer.from(`${size}${lineEnd}`), part, Buffer.from(lineEnd)];
  const payload = Buffer.concat([
    ...piece(body.subarray(0, half), half.toString(16)),
    ...piece(body.subarray(half), sizes(body.length - half)),
    Buffer.from(end),
  ]);
  return withLines(["Transfer-Encoding: chunked"], isStream, payload);
}

const oddLines = [
  "no header at all",
  ": no name",
  "A name: with a space",
  "Name : with a space before the colon",
  " Folded: into the line before",
  "\tfolded",
  "X: \u0000",
  "X: \u0001\u007f",
  "X: bare\nline feed",
  "X: bare\rreturn",
  "Content-Encoding: gzip",
  "Content-Encoding: identity",
  "Content-Type: text/html",
  "Content-Type:",
  "Content-Type: application/json, text/event-stream",
  "Connection: close, keep-alive",
  "Connection: upgrade\r\nUpgrade: h2c",
  "Keep-Alive: timeout=0",
  "Location: http://127.0.0.1:1/",
  "Retry-After: 86400",
  `X-Long: ${"x".repeat(66_000)}`,
  "X: y\r\n".repeat(3000) + "X: y",
];

function withOddLine(bytes: Buffer, chance: Chance): Buffer {
  const lineEnd = bytes.indexOf("\r\n") + 2;
  const line = Buffer.from(`${chance.pick(oddLines)}\r\n`, "latin1");
  return Buffer.concat([bytes.subarray(0, lineEnd), line, bytes.subarray(lineEnd)]);
}

const noHttp = [
  "",
  "\r\n\r\n",
  "hello",
  "<html></html>",
  "HTTP/0.9 200 OK\r\n\r\n",
  "HTTP/2 200 OK\r\n\r\n",
  "HTTP/1.1 20 OK\r\n\r\n",
  "HTTP/1.1 2000 OK\r\n\r\n",
  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
  "HTTP/1.1 100 Continue\r\n\r\n".repeat(3000),
  "\u0015\u0003\u0001\u0000\u0002\u0002\u0046",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "ICY 200 OK\r\n\r\n",
];
