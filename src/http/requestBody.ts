import type { App } from "../app.ts";
import {
  ApiError,
  incompleteRequest,
  invalidRequest,
  rateLimitExceeded,
} from "../contract/errors.ts";
import type { BodyText } from "../contract/jsonBody.ts";
import type { BodyReservation } from "../limits/bodyBudget.ts";
import { LARGE_BODY_BYTES, type BodyTurn } from "../limits/largeBodies.ts";
import type { InFlightRequest } from "./authentication.ts";

/** Keeps a byte order mark, so that the JSON parser refuses it. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const JSON_TYPE = "application/json";

/** A longer body is read in chunks, so that each is counted when it arrives. */
const ONE_READ_BYTES_MAX = 65_536;

/** Counts the bytes of one body. Its functions may throw ApiError. */
export interface BodyCounter {
  /** The length is known before the body is read. It may have to wait. */
  declared?(bytes: number): Promise<void> | undefined;
  /** Bytes have arrived. Returns false to refuse them. */
  take(bytes: number): boolean;
}

/**
 * Reads a request's body of at most `bytesMax` bytes. Checks the headers before it reads. Throws ApiError: 400 for errors of
 * the client, 429 if the counter refuses the bytes.
 */
export async function readBody(
  request: Request,
  bytesMax: number,
  counter: BodyCounter,
): Promise<BodyText> {
  const { headers } = request;
  checkHeaders(headers);
  const declared = headers.get("content-length");
  if (declared !== null && Number(declared) > bytesMax) throw tooLarge();
  const isBounded = declared !== null && !headers.has("transfer-encoding");
  const mayRead = isBounded ? counter.declared?.(Number(declared)) : undefined;
  if (mayRead) await mayRead;
  // Bun never returns more bytes than declared. One read costs half as much as reading chunks.
  const isShort = isBounded && Number(declared) <= ONE_READ_BYTES_MAX;
  let bytes: Uint8Array;
  try {
    bytes = isShort ? await request.bytes() : await readChunks(request, bytesMax, counter);
  } catch (error) {
    if (request.signal.aborted && !(error instanceof ApiError)) throw incompleteRequest();
    throw error;
  }
  if (bytes.byteLength > bytesMax) throw tooLarge();
  if (isShort) count(counter, bytes);
  try {
    return { text: utf8.decode(bytes), bytes };
  } catch {
    throw invalidRequest("request body is not valid UTF-8");
  }
}

async function readChunks(
  request: Request,
  bytesMax: number,
  counter: BodyCounter,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (request.body === null) return new Uint8Array(0);
  // A throw inside the loop cancels the body.
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    length += chunk.byteLength;
    if (length > bytesMax) throw tooLarge();
    count(counter, chunk);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

function count(counter: BodyCounter, bytes: Uint8Array): void {
  if (!counter.take(bytes.byteLength)) throw rateLimitExceeded();
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

/** A client that sends its large body more slowly loses the turn, and gets another one when the body is here. */
const READ_WITHIN_MS = 1000;

/**
 * What the body of one request occupies: bytes of its key's rate, memory of all bodies, and for a large body the turn
 * of its account. `release` gives them back.
 */
export class BodyIntake implements BodyCounter {
  readonly #app: App;
  readonly #inFlight: InFlightRequest;
  readonly #reservation: BodyReservation;
  #isDeclared = false;
  #turn: BodyTurn | undefined;
  #slow: Timer | undefined;

  constructor(app: App, inFlight: InFlightRequest) {
    this.#app = app;
    this.#inFlight = inFlight;
    this.#reservation = app.bodies.claim(inFlight.caller.accountId);
  }

  /** The length is known before the body is read. A large body waits for its turn. Throws ApiError 429. */
  declared(bytes: number): Promise<void> | undefined {
    this.#isDeclared = true;
    this.#takeRate(bytes);
    return bytes > LARGE_BODY_BYTES ? this.#waitToRead() : undefined;
  }

  /** Bytes have arrived. Returns false if they exceed the account's share of the memory. Throws ApiError 429. */
  take(bytes: number): boolean {
    if (!this.#isDeclared) this.#takeRate(bytes);
    return this.#reservation.take(bytes);
  }

  /** The body is here, and is checked next. Waits if it is large and has no turn. */
  ready(bytes: number): Promise<void> | undefined {
    clearTimeout(this.#slow);
    if (bytes <= LARGE_BODY_BYTES && this.#turn === undefined) return undefined;
    if (this.#turn?.isOver !== false) return this.#waitToCheck();
    this.#turn.start();
    return undefined;
  }

  /** The body is checked, translated and sent in this turn of the event loop, unless the request has to wait for something. */
  checked(): void {
    const turn = this.#turn;
    if (turn) setImmediate(() => turn.end());
  }

  /** Returns the memory. A second call has no effect. */
  release(): void {
    clearTimeout(this.#slow);
    this.#turn?.end();
    this.#reservation.release();
  }

  async #waitToRead(): Promise<void> {
    this.#inFlight.startWaiting();
    const turn = await this.#enter();
    this.#inFlight.startReading();
    this.#slow = setTimeout(() => turn.end(), READ_WITHIN_MS);
  }

  async #waitToCheck(): Promise<void> {
    this.#inFlight.startWaiting();
    const turn = await this.#enter();
    turn.start();
  }

  async #enter(): Promise<BodyTurn> {
    const turn = await this.#app.largeBodies.enter(this.#inFlight.caller.accountId);
    this.#turn = turn;
    return turn;
  }

  #takeRate(bytes: number): void {
    const { permit, snapshot } = this.#inFlight;
    const taken = permit.takeBodyBytes(bytes, snapshot.config.limits.bodyBytesPerMinute);
    if (!taken.ok) throw rateLimitExceeded(taken.retryAfterMs);
  }
}
