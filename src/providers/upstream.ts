import type { ProviderConfig } from "../config/schema.ts";
import { Deadline, type Deadlines } from "../lib/clock.ts";
import type { Span } from "../lib/span.ts";
import { SseLimitError, SseEncodingError } from "../lib/sse.ts";
import { version } from "../lib/version.ts";
import {
  ConnectionError,
  createHttpClient,
  type HttpClient,
  type HttpExchange,
  type HttpRequest,
  type OpenRequests,
  type ResponseListener,
} from "./http/client.ts";
import type { RenewedKey } from "./keys/renewedKey.ts";
import { detailsOf, errorOfReply, retryAfterOf } from "./errorReply.ts";
import {
  ANSWER_BYTES_MAX,
  AnswerError,
  UnsupportedRequestError,
  type EncodedRequest,
  type ProviderAdapter,
} from "./provider.ts";
import { reportedFailureInText, type ReportedFailure } from "./reportedFailure.ts";
import { secretsOf, type Secrets } from "./secrets.ts";
import { UpstreamError } from "./upstreamError.ts";

export { ConnectionError, ProxyError, type ConnectionErrorCode } from "./http/connectionError.ts";
export { checkReachable, type OpenRequests, tunnelTo } from "./http/client.ts";
export { download } from "./http/download.ts";
export { createPoster } from "./http/poster.ts";
export {
  ReportedFailure,
  reportedFailureIn,
  reportedFailureOf,
  reportedFailureOfText,
} from "./reportedFailure.ts";
export { ownFault, UpstreamError, type UpstreamFault } from "./upstreamError.ts";

/**
 * One request to a provider. `requestId` is the gateway's own id; it helps to find the request in the provider's log.
 */
export interface UpstreamRequest extends EncodedRequest {
  readonly stream: boolean;
  readonly requestId: string;
  /** The time for the whole attempt, in milliseconds. Default: `total_timeout`. */
  readonly endsAfterMs?: number;
}

export interface UpstreamExchange {
  /**
   * Resolves with the bytes of a JSON answer at its end; for a stream without bytes as soon as the head of a 200 has
   * arrived. Rejects with UpstreamError. A caller can make an answer too large (with log probabilities), so that does not count
   * for the route's health.
   */
  readonly answer: Promise<Uint8Array>;
  /** Undefined until the head has arrived. */
  readonly status: number | undefined;
  /** At least the beginning of the request was written, so the provider may have it. */
  readonly isSent: boolean;
  /**
   * The next bytes of a stream; undefined at its end. One read at a time, and only after `answer`. Rejects with an
   * error that `upstreamErrorOf` converts. Not an async function: each event of a stream would pay for that.
   */
  read(): Promise<Uint8Array | undefined>;
  /**
   * While a read waits, offers each piece to `taker` first. If `taker` returns true, it took the piece and the read
   * waits on.
   */
  offerTo(taker: (piece: Span) => boolean): void;
  /**
   * The first content has arrived. Ends `first_content_timeout`, and sets the time for each later read, which was
   * `first_byte_timeout` until now.
   */
  setReadTimeout(afterMs: number): void;
  /** The whole attempt may take until this monotonic time at least. */
  extend(untilMs: number): void;
  /** Stops the read timeout until the next read or `resumeReadTimeout`. The timeout of the whole attempt stays. */
  suspendReadTimeout(): void;
  /** Starts the read timeout again for the read in progress. */
  resumeReadTimeout(): void;
  /** The answer is complete. The connection is kept if the body ends soon, else closed. */
  finished(): void;
  /** The error for a failure that the answer reports, without secrets. */
  reported(failure: ReportedFailure): UpstreamError;
  abort(reason: UpstreamError): void;
}

export interface Upstream {
  /** Exchanges in progress, including those of the Upstream that a reload replaced. */
  readonly open: OpenRequests;
  send(request: UpstreamRequest): UpstreamExchange;
  /** Closes idle connections now, the others when their exchanges end. */
  close(): void;
}

/** The most bytes of an error body that are read. */
const ERROR_BYTES_MAX = 64 * 1024;
const ERROR_BODY_TIMEOUT_MS = 5000;
/** The time for the end of the body after a complete answer. */
const ENDING_TIMEOUT_MS = 1000;

interface UpstreamOptions {
  readonly onUnsolicitedData: (distrustMs: number) => void;
  /** The count of open exchanges; without it they are counted anew. */
  readonly open?: OpenRequests | undefined;
  /** The key, if it expires. */
  readonly key?: RenewedKey | undefined;
}

/** Uses our own HTTP/1.1 client instead of `fetch`; docs/contribute/architecture.md has the reasons. */
export function createUpstream(
  provider: ProviderConfig,
  adapter: ProviderAdapter,
  deadlines: Deadlines,
  { onUnsolicitedData, open, key }: UpstreamOptions,
): Upstream {
  const secrets = secretsOf(provider);
  const headers = {
    ...(key === undefined ? adapter.headers(provider.apiKey) : {}),
    ...provider.headers,
    "content-type": "application/json",
    "accept-encoding": "identity",
    "user-agent": `tollgate/${version()}`,
  };
  const client = createHttpClient({ ...provider, headers, onUnsolicitedData, open });
  return {
    open: client.open,
    send(call) {
      const { path, headers: own = {}, body, stream, requestId } = call;
      const { answerBytesMax = ANSWER_BYTES_MAX, endsAfterMs = provider.totalTimeoutMs } = call;
      const accept = stream ? "text/event-stream" : "application/json";
      const issued = key && { source: key, key: key.key };
      const headers: Record<string, string> = {
        accept,
        "x-request-id": requestId,
        ...(issued && adapter.headers(issued.key)),
      };
      for (const name in own)
        if (!Object.hasOwn(provider.headers, name)) headers[name] = own[name] ?? "";
      const request = { path, headers, body };
      const options = { provider, secrets, issued, stream, answerBytesMax, endsAfterMs, deadlines };
      return new ProviderExchange(client, request, options);
    },
    close() {
      client.close();
    },
  };
}

/** The key with which a request was sent, and what renews it. */
interface IssuedWith {
  readonly source: RenewedKey;
  readonly key: string | undefined;
}

interface ExchangeOptions {
  provider: ProviderConfig;
  secrets: Secrets;
  issued: IssuedWith | undefined;
  stream: boolean;
  answerBytesMax: number;
  endsAfterMs: number;
  deadlines: Deadlines;
}

const NO_BYTES = new Uint8Array();

class ProviderExchange implements UpstreamExchange, ResponseListener {
  readonly #http: HttpExchange;
  readonly #answer = Promise.withResolvers<Uint8Array>();
  readonly #options: ExchangeOptions;
  readonly #deadline: Deadline;
  #endsAtMs: number;
  /** When the first content is due, in monotonic time. */
  #contentDueMs = Infinity;
  #readTimeoutMs: number | undefined;
  /** The answer is an error, and its body is being read. */
  #isRefusal = false;
  #isOver = false;

  constructor(client: HttpClient, request: HttpRequest, options: ExchangeOptions) {
    const { provider, stream, endsAfterMs, deadlines } = options;
    this.#options = options;
    const nowMs = deadlines.clock.monotonicMs();
    this.#endsAtMs = nowMs + endsAfterMs;
    // This callback lives as long as the exchange, so it must not capture the request (docs/contribute/architecture.md, memory
    // rules).
    this.#deadline = timeoutOf(this, deadlines);
    this.#http = client.send(request, this);
    if (stream) {
      // Each byte is a sign of life: pings, comments and opening events too.
      this.#readTimeoutMs = provider.firstByteTimeoutMs;
      if (provider.firstContentTimeoutMs > 0)
        this.#contentDueMs = nowMs + provider.firstContentTimeoutMs;
    }
    this.#setDeadline(nowMs + (stream ? provider.firstByteTimeoutMs : endsAfterMs));
  }

  get answer(): Promise<Uint8Array> {
    return this.#answer.promise;
  }

  get status(): number | undefined {
    return this.#http.status;
  }

  get isSent(): boolean {
    return this.#http.isSent;
  }

  read(): Promise<Uint8Array | undefined> {
    this.resumeReadTimeout();
    return this.#http.read();
  }

  offerTo(taker: (piece: Span) => boolean): void {
    this.#http.offerTo((piece) => {
      // Before the taker, which may suspend the timeout.
      this.resumeReadTimeout();
      return taker(piece);
    });
  }

  setReadTimeout(afterMs: number): void {
    this.#readTimeoutMs = afterMs;
    this.#contentDueMs = Infinity;
    this.suspendReadTimeout();
  }

  extend(untilMs: number): void {
    this.#endsAtMs = Math.max(this.#endsAtMs, untilMs);
  }

  suspendReadTimeout(): void {
    this.#setDeadline(Infinity);
  }

  resumeReadTimeout(): void {
    if (this.#readTimeoutMs !== undefined) this.#setDeadlineIn(this.#readTimeoutMs);
  }

  finished(): void {
    if (this.#isOver) return;
    this.#setDeadlineIn(ENDING_TIMEOUT_MS);
    void this.#readEnd();
  }

  reported(failure: ReportedFailure): UpstreamError {
    const { fault, outcome, error } = failure;
    const details = detailsOf(fault, error.status, error, this.#secrets);
    return new UpstreamError(fault, outcome, { ...details, status: this.status, cause: failure });
  }

  abort(reason: UpstreamError): void {
    if (this.#isRefusal) this.#refuse();
    else this.#http.abort(reason);
  }

  responded(): void {
    const { stream } = this.#options;
    if (this.status !== 200) return this.#readRefusal();
    const encoding = this.#http.header("content-encoding");
    if (encoding !== undefined && encoding.trim().toLowerCase() !== "identity") {
      return this.#fail(new UpstreamError("provider", "compressed", { status: this.status }));
    }
    const mediaType = mediaTypeOf(this.#http.header("content-type"));
    if (!stream) {
      if (mediaType === STREAM_TYPE) return this.#fail(this.#wrongType());
      return this.#http.collect(this.#options.answerBytesMax);
    }
    // An error in place of a stream tells who is at fault.
    if (mediaType === JSON_TYPE) return this.#readRefusal();
    if (mediaType === HTML_TYPE) return this.#fail(this.#wrongType());
    this.#http.dropHeaders();
    this.#answer.resolve(NO_BYTES);
  }

  exceeded(): void {
    if (this.#isRefusal) this.#refuse();
    else this.#fail(new UpstreamError("isolated", "too large"));
  }

  ended(failure: Error | undefined): void {
    this.#isOver = true;
    this.#deadline.clear();
    if (this.#isRefusal) this.#refuse();
    else if (failure !== undefined) this.#answer.reject(upstreamErrorOf(failure) ?? failure);
    else if (!this.#options.stream) this.#answer.resolve(this.#http.takeAll());
  }

  #fail(failure: Error): void {
    this.#answer.reject(failure);
    this.#http.abort(failure);
  }

  /** Reads the body of an error. Its status is enough if the body is cut or too long: the message is only shorter. */
  #readRefusal(): void {
    this.#isRefusal = true;
    this.#http.collect(ERROR_BYTES_MAX);
    this.#setDeadlineIn(ERROR_BODY_TIMEOUT_MS);
  }

  /** Fails with the error that has arrived so far. */
  #refuse(): void {
    this.#isRefusal = false;
    try {
      this.#fail(this.#errorOf(Buffer.from(this.#http.takeAll())));
    } catch (bug) {
      this.#fail(bug as Error);
    }
  }

  #errorOf(body: Buffer): UpstreamError {
    const text = body.toString("utf8", 0, ERROR_BYTES_MAX);
    const { status = 0 } = this;
    if (status !== 200) {
      const error = errorOfReply(status, retryAfterOf(this.#http), text, this.#secrets);
      return this.#hasExpiredKey(error)
        ? new UpstreamError("keyExpired", "key expired", { status })
        : error;
    }
    const failure = reportedFailureInText(text);
    return failure ? this.reported(failure) : this.#wrongType();
  }

  /** Whether the provider refuses the key for its age. Then another one is there or comes. */
  #hasExpiredKey({ fault, status }: UpstreamError): boolean {
    const { issued } = this.#options;
    return (
      issued !== undefined &&
      fault === "account" &&
      status === 401 &&
      issued.source.refused(issued.key)
    );
  }

  get #secrets(): Secrets {
    const { secrets, issued } = this.#options;
    if (issued?.key === undefined) return secrets;
    return { ...secrets, values: [...secrets.values, issued.key] };
  }

  #wrongType(): UpstreamError {
    return new UpstreamError("provider", "content type", { status: this.status });
  }

  /** Data after the end of an answer closes its connection. */
  async #readEnd(): Promise<void> {
    try {
      const unrequested = await this.#http.read();
      if (unrequested !== undefined)
        this.#http.abort(new UpstreamError("provider", "unrequested data"));
    } catch {
      // The answer is complete already.
    }
  }

  #setDeadlineIn(afterMs: number): void {
    this.#setDeadline(this.#options.deadlines.clock.monotonicMs() + afterMs);
  }

  /** The timeouts of the whole attempt and of the first content always count too. */
  #setDeadline(dueMs: number): void {
    if (!this.#isOver) this.#deadline.setAt(Math.min(dueMs, this.#contentDueMs, this.#endsAtMs));
  }
}

function timeoutOf(exchange: ProviderExchange, deadlines: Deadlines): Deadline {
  return new Deadline(deadlines, () => exchange.abort(timeoutError()));
}

const JSON_TYPE = "application/json";
const STREAM_TYPE = "text/event-stream";
const HTML_TYPE = "text/html";

/** The media type of a content-type header, without parameters. */
function mediaTypeOf(contentType = ""): string {
  const end = contentType.indexOf(";");
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase();
}

function timeoutError(): UpstreamError {
  return new UpstreamError("provider", "timeout");
}

/** Converts any error of an attempt. Undefined for an error of the gateway's own code. */
export function upstreamErrorOf(error: unknown): UpstreamError | undefined {
  if (error instanceof UpstreamError) return error;
  if (error instanceof ConnectionError) {
    const fault = error.code === "descriptors" ? "gateway" : "provider";
    return new UpstreamError(fault, error.code, { cause: error });
  }
  if (error instanceof UnsupportedRequestError) {
    const clientError = { message: error.message, extra: {} };
    return new UpstreamError("unsupported", "unsupported", { clientError });
  }
  // A caller can choose the size of an event, for example with `logprobs`, so another route would send the same.
  if (error instanceof SseLimitError)
    return new UpstreamError("excessive", "too large", { cause: error });
  if (error instanceof AnswerError)
    return new UpstreamError(error.fault, error.outcome, { cause: error });
  if (error instanceof SseEncodingError)
    return new UpstreamError("provider", "invalid answer", { cause: error });
  return undefined;
}
