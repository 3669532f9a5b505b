import { invalidRequest, type ApiError } from "../contract/errors.ts";

/** Keeps a byte order mark, which then is refused as what it is: no JSON. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A longer body is read in pieces, so that each can be counted as it comes. */
const WHOLE_BYTES_MAX = 65_536;

/** A request's body: its text, and that in UTF-8 as it came. */
export interface BodyText {
  readonly text: string;
  readonly bytes: Uint8Array;
}

/**
 * Reads the text of a request's body, of at most `bytesMax` bytes. Nothing is read where the headers refuse it already,
 * and no more than the limit is kept. `count` is told of bytes as they arrive, and may throw. Throws ApiError 400 for
 * what the client did wrong, and rejects with the runtime's own error when the client goes away while sending.
 */
export async function readBody(
  request: Request,
  bytesMax: number,
  count: (bytes: number) => void = () => {},
): Promise<BodyText> {
  checkHeaders(request.headers);
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > bytesMax) throw tooLarge();
  const isBounded = declared !== null && !request.headers.has("transfer-encoding");
  // The server hands over no more bytes than were declared, and reading them in one piece is cheaper by half.
  const isShort = isBounded && Number(declared) <= WHOLE_BYTES_MAX;
  const bytes = isShort ? await request.bytes() : await readPieces(request, bytesMax, count);
  if (bytes.byteLength > bytesMax) throw tooLarge();
  if (isShort) count(bytes.byteLength);
  try {
    return { text: utf8.decode(bytes), bytes };
  } catch {
    throw invalidRequest("request body is not valid UTF-8");
  }
}

async function readPieces(
  request: Request,
  bytesMax: number,
  count: (bytes: number) => void,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  if (request.body === null) return new Uint8Array(0);
  // Leaving the loop by a throw cancels the body.
  for await (const piece of request.body as ReadableStream<Uint8Array>) {
    length += piece.byteLength;
    if (length > bytesMax) throw tooLarge();
    count(piece.byteLength);
    pieces.push(piece);
  }
  return Buffer.concat(pieces, length);
}

function checkHeaders(headers: Headers): void {
  const [type, ...parameters] = (headers.get("content-type") ?? "").split(";");
  const mediaType = (type ?? "").trim().toLowerCase();
  if (mediaType !== "" && mediaType !== "application/json") {
    throw invalidRequest("content-type must be application/json");
  }
  if (!parameters.every(isUtf8Parameter)) {
    throw invalidRequest("content-type must be application/json in utf-8");
  }
  const encoding = headers.get("content-encoding") ?? "";
  if (!["", "identity"].includes(encoding.trim().toLowerCase())) {
    throw invalidRequest("content-encoding not supported");
  }
  // Bun 1.4.5 answers a trailer with a bare 400 once it comes to it, and by then the request may have been charged.
  // Behind a body of a given length none can come.
  if (headers.has("transfer-encoding") && headers.get("trailer")) {
    throw invalidRequest("trailers are not supported");
  }
}

/** True for a charset that is UTF-8, quoted or not, and for every other parameter. */
function isUtf8Parameter(parameter: string): boolean {
  const [name, value] = parameter.toLowerCase().split("=", 2);
  if (name?.trim() !== "charset") return true;
  return ["utf-8", "utf8", '"utf-8"', '"utf8"'].includes((value ?? "").trim());
}

function tooLarge(): ApiError {
  return invalidRequest("request body is too large");
}
