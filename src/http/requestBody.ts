import { isUtf8 } from "node:buffer";
import type { App } from "../app.ts";
import {
  ApiError,
  incompleteRequest,
  invalidRequest,
  rateLimitExceeded,
} from "../contract/errors.ts";
import type { BodyReservation } from "../limits/bodyBudget.ts";
import type { InFlightRequest } from "./authentication.ts";

const JSON_TYPE = "application/json";

/** Counts the bytes of one body. */
interface BodyCounter {
  /** Takes a declared length before the body is read, else what has arrived. May throw ApiError. */
  take(bytes: number): void;
}

/**
 * Reads a request's body of at most `bytesMax` bytes, which are valid UTF-8. Checks the headers before it reads. Throws ApiError: 400 for errors of
 * the client, 429 if the counter refuses the bytes.
 */
export async function readBody(
  request: Request,
  bytesMax: number,
  counter?: BodyCounter,
): Promise<Uint8Array> {
  const { headers } = request;
  checkHeaders(headers);
  const declared = Number(headers.get("content-length") ?? Number.NaN);
  if (declared > bytesMax) throw tooLarge();
  // Two headers of this name are joined, which is no number.
  const isBounded = Number.isSafeInteger(declared) && !headers.has("transfer-encoding");
  if (isBounded) counter?.take(declared);
  let bytes: Uint8Array;
  try {
    // Bun never returns more bytes than declared. One read costs half as much as reading chunks.
    bytes = isBounded ? await request.bytes() : await readChunks(request, bytesMax, counter);
  } catch (error) {
    if (request.signal.aborted && !(error instanceof ApiError)) throw incompleteRequest();
    throw error;
  }
  if (bytes.byteLength > bytesMax) throw tooLarge();
  if (!isUtf8(bytes)) throw invalidRequest("request body is not valid UTF-8");
  return bytes;
}

async function readChunks(
  request: Request,
  bytesMax: number,
  counter?: BodyCounter,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (request.body === null) return new Uint8Array(0);
  // A throw inside the loop cancels the body.
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    length += chunk.byteLength;
    if (length > bytesMax) throw tooLarge();
    counter?.take(chunk.byteLength);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

function checkHeaders(headers: Headers): void {
  const contentType = headers.get("content-type") ?? "";
  if (contentType !== JSON_TYPE) checkContentType(contentType);
  const encoding = headers.get("content-encoding") ?? "";
  if (encoding !== "" && encoding.trim().toLowerCase() !== "identity") {
    throw invalidRequest("content-encoding not supported");
  }
  // Bun 1.4.5 answers a trailer with an empty 400 when it arrives. The request may already be charged then. A body with a
  // content-length cannot have a trailer.
  if (headers.has("transfer-encoding") && headers.get("trailer")) {
    throw invalidRequest("trailers are not supported");
  }
}

function checkContentType(contentType: string): void {
  const [type, ...parameters] = contentType.split(";");
  const mediaType = (type ?? "").trim().toLowerCase();
  if (mediaType !== "" && mediaType !== JSON_TYPE) {
    throw invalidRequest("content-type must be application/json");
  }
  if (!parameters.every(isUtf8Parameter)) {
    throw invalidRequest("content-type must be application/json in utf-8");
  }
}

/** True for the charset UTF-8, quoted or not, and for every parameter other than charset. */
function isUtf8Parameter(parameter: string): boolean {
  const [name, value] = parameter.toLowerCase().split("=", 2);
  if (name?.trim() !== "charset") return true;
  return ["utf-8", "utf8", '"utf-8"', '"utf8"'].includes((value ?? "").trim());
}

function tooLarge(): ApiError {
  return invalidRequest("request body is too large");
}

/** What the body of one request occupies: bytes of its key's rate, and memory of all bodies. `release` gives that back. */
export class BodyIntake implements BodyCounter {
  readonly #inFlight: InFlightRequest;
  readonly #reservation: BodyReservation;

  constructor(app: App, inFlight: InFlightRequest) {
    this.#inFlight = inFlight;
    this.#reservation = app.bodies.claim(inFlight.caller.accountId);
  }

  /** Takes bytes before they are read or when they have arrived. Throws ApiError 429. */
  take(bytes: number): void {
    const { permit, snapshot } = this.#inFlight;
    const taken = permit.takeBodyBytes(bytes, snapshot.config.limits.bodyBytesPerMinute);
    if (!taken.ok) throw rateLimitExceeded(taken.retryAfterMs);
    if (!this.#reservation.take(bytes)) throw rateLimitExceeded();
  }

  /** Returns the memory. A second call has no effect. */
  release(): void {
    this.#reservation.release();
  }
}
