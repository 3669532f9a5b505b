import type { ProviderConfig } from "../config/schema.ts";
import { type Clock, Deadline } from "../lib/clock.ts";
import type { Span } from "../lib/span.ts";
import { SseLimitError, SseEncodingError } from "../lib/sse.ts";
import { version } from "../lib/version.ts";
import {
  ConnectionError,
  createHttpClient,
  type HttpClient,
  type HttpExchange,
  type HttpRequest,
  type HttpResponse,
  type OpenRequests,
} from "./http/client.ts";
import { detailsOf, errorOfReply, retryAfterOf } from "./errorReply.ts";
import {
  AnswerError,
  UnsupportedRequestError,
  type EncodedRequest,
  type ProviderAdapter,
} from "./provider.ts";
import { reportedFailureInText, type ReportedFailure } from "./reportedFailure.ts";
import { secretsOf, type Secrets } from "./secrets.ts";
import { UpstreamError } from "./upstreamError.ts";

export { ConnectionError } from "./http/client.ts";
export { checkReachable } from "./http/client.ts";
export {
  ReportedFailure,
  reportedFailureIn,
  reportedFailureOf,
  reportedFailureOfText,
} from "./reportedFailure.ts";
export { ownFault, UpstreamError } from "./upstreamError.ts";

/**
 * One request to a provider. `requestId` is the gateway's own id; it helps to find the request in the provider's log.
 */
export interface UpstreamRequest extends EncodedRequest {
  readonly stream: boolean;
  readonly requestId: string;
}

/** One request and its answer. */
export interface UpstreamExchange {
  /** Resolves when the head of a 200 answer has arrived. Rejects with UpstreamError. */
  readonly head: Promise<void>;
  /** Undefined until the head has arrived. */
  readonly status: number | undefined;
  /** At least the beginning of the request was written, so the provider may have it. */
  readonly isSent: boolean;
  /**
   * The next bytes of the answer; undefined at its end. One read at a time, and only after `head`. Rejects with an
   * error that `upstreamErrorOf` converts. Not an async function: each event of a stream would pay for that.
   */
  read(): Promise<Uint8Array | undefined>;
  /**
   * While a read waits, offers each piece to `taker` first. If `taker` returns true, it took the piece and the read
   * waits on.
   */
  offerTo(taker: (piece: Span) => boolean): void;
  /** The time that each later read may take. Before this call a stream waits for its first content. */
  setReadTimeout(afterMs: number): void;
  /** Stops the read timeout until the next read or `resumeReadTimeout`. The timeout of the whole attempt stays. */
  suspendReadTimeout(): void;
  /** Starts the read timeout again for the read in progress. */
  resumeReadTimeout(): void;
  /** The answer is complete. The connection is kept if the body ends soon, else closed. */
  finished(): void;
  /** The error for a failure that the answer reports, without secrets. */
  reported(failure: ReportedFailure): UpstreamError;
  /** Ends the exchange at once. */
  abort(reason: UpstreamError): void;
}

/** The connections to one provider. */
export interface Upstream {
  /** Exchanges in progress, including those of the Upstream that a reload replaced. */
  readonly open: OpenRequests;
  send(request: UpstreamRequest): UpstreamExchange;
  /** Closes idle connections now, the others when their exchanges end. */
  close(): void;
}

/** The part of an error body that is read. */
const ERROR_BYTES_MAX = 64 * 1024;
const ERROR_BODY_TIMEOUT_MS = 5000;
/** The time for the end of the body after a complete answer. */
const ENDING_TIMEOUT_MS = 1000;

/** Uses our own HTTP/1.1 client instead of `fetch`; docs/architecture.md has the reasons. */
export function createUpstream(
  provider: ProviderConfig,
  adapter: ProviderAdapter,
  clock: Clock,
  onUnsolicitedData: (distrustMs: number) => void,
  open?: OpenRequests,
): Upstream {
  const secrets = secretsOf(provider);
  const headers = {
    ...adapter.headers(provider.apiKey),
    ...provider.headers,
    "content-type": "application/json",
    "accept-encoding": "identity",
    "user-agent": `tollgate/${version()}`,
  };
  const client = createHttpClient({ ...provider, headers, onUnsolicitedData, open });
  return {
    open: client.open,
    send({ path, body, stream, requestId }) {
      const accept = stream ? "text/event-stream" : "application/json";
      const request = { path, headers: { accept, "x-request-id": requestId }, body };
      return new ProviderExchange(client, request, { provider, secrets, stream, clock });
    },
    close() {
      client.close();
    },
  };
}

interface ExchangeOptions {
  provider: ProviderConfig;
  secrets: Secrets;
  stream: boolean;
  clock: Clock;
}

class ProviderExchange implements UpstreamExchange {
  readonly head: Promise<void>;
  readonly #http: HttpExchange;
  readonly #options: ExchangeOptions;
  readonly #deadline: Deadline;
  readonly #endsAtMs: number;
  #response: HttpResponse | undefined;
  #readTimeoutMs: number | undefined;
  #isOver = false;

  constructor(client: HttpClient, request: HttpRequest, options: ExchangeOptions) {
    const { provider, stream, clock } = options;
    this.#options = options;
    this.#endsAtMs = clock.monotonicMs() + provider.totalTimeoutMs;
    this.#deadline = new Deadline(clock, () => this.#http.abort(timeoutError()));
    // This callback lives as long as the exchange, so it must not capture the request (docs/architecture.md, memory
    // rules).
    this.#http = client.send(request, () => {
      this.#isOver = true;
      this.#deadline.clear();
    });
    this.#setDeadline(stream ? provider.firstByteTimeoutMs : provider.totalTimeoutMs);
    this.head = this.#receiveHead();
  }

  get status(): number | undefined {
    return this.#response?.status;
  }

  get isSent(): boolean {
    return this.#http.isSent;
  }

  read(): Promise<Uint8Array | undefined> {
    if (!this.#response) return Promise.resolve(undefined);
    this.resumeReadTimeout();
    return this.#response.read();
  }

  offerTo(taker: (piece: Span) => boolean): void {
    this.#response?.offerTo((piece) => {
      // Before the taker, which may suspend the timeout.
      this.resumeReadTimeout();
      return taker(piece);
    });
  }

  setReadTimeout(afterMs: number): void {
    this.#readTimeoutMs = afterMs;
    this.suspendReadTimeout();
  }

  suspendReadTimeout(): void {
    this.#setDeadline(Infinity);
  }

  resumeReadTimeout(): void {
    if (this.#readTimeoutMs !== undefined) this.#setDeadline(this.#readTimeoutMs);
  }

  finished(): void {
    this.#setDeadline(ENDING_TIMEOUT_MS);
    void this.#readEnd();
  }

  reported(failure: ReportedFailure): UpstreamError {
    const { fault, outcome, error } = failure;
    const details = detailsOf(fault, error.status, error, this.#options.secrets);
    return new UpstreamError(fault, outcome, { ...details, status: this.status, cause: failure });
  }

  abort(reason: UpstreamError): void {
    this.#http.abort(reason);
  }

  /** Data after the end of an answer closes its connection. */
  async #readEnd(): Promise<void> {
    try {
      const unrequested = await this.#response?.read();
      if (unrequested !== undefined)
        this.#http.abort(new UpstreamError("provider", "unrequested data"));
    } catch {
      // The answer is complete already.
    }
  }

  /** The timeout of the whole attempt always counts too. */
  #setDeadline(afterMs: number): void {
    if (this.#isOver) return;
    const dueMs = this.#options.clock.monotonicMs() + afterMs;
    this.#deadline.setAt(Math.min(dueMs, this.#endsAtMs));
  }

  async #receiveHead(): Promise<void> {
    try {
      const response = await this.#http.response;
      this.#response = response;
      if (response.status !== 200) throw await this.#errorOf(response);
      await this.#checkHead(response);
    } catch (error) {
      const failure = upstreamErrorOf(error);
      if (!failure) throw error;
      this.abort(failure);
      throw failure;
    }
  }

  async #checkHead(response: HttpResponse): Promise<void> {
    const encoding = response.header("content-encoding") ?? "identity";
    if (encoding.trim().toLowerCase() !== "identity") {
      throw new UpstreamError("provider", "compressed", { status: response.status });
    }
    const [type = ""] = (response.header("content-type") ?? "").split(";", 1);
    const mediaType = type.trim().toLowerCase();
    const isStream = mediaType === "text/event-stream";
    const isJson = mediaType === "application/json";
    if (this.#options.stream ? !isJson && mediaType !== "text/html" : !isStream) return;
    // An error in place of a stream tells who is at fault.
    const failure = isJson && reportedFailureInText(await this.#readErrorBody(response));
    if (failure) throw this.reported(failure);
    throw new UpstreamError("provider", "content type", { status: response.status });
  }

  async #errorOf(response: HttpResponse): Promise<UpstreamError> {
    const text = await this.#readErrorBody(response);
    return errorOfReply(response.status, retryAfterOf(response), text, this.#options.secrets);
  }

  async #readErrorBody(response: HttpResponse): Promise<string> {
    this.#setDeadline(ERROR_BODY_TIMEOUT_MS);
    const pieces: Uint8Array[] = [];
    let length = 0;
    try {
      while (length < ERROR_BYTES_MAX) {
        const piece = await response.read();
        if (!piece) break;
        pieces.push(piece);
        length += piece.byteLength;
      }
    } catch {
      // The status is enough; the message is only shorter.
    }
    return Buffer.concat(pieces).subarray(0, ERROR_BYTES_MAX).toString();
  }
}

function timeoutError(): UpstreamError {
  return new UpstreamError("provider", "timeout");
}

/** Converts any error of an attempt. Undefined for an error of the gateway's own code. */
export function upstreamErrorOf(error: unknown): UpstreamError | undefined {
  if (error instanceof UpstreamError) return error;
  if (error instanceof ConnectionError)
    return new UpstreamError("provider", error.code, { cause: error });
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
