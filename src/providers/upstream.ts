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
import { secretsOf, type Secrets } from "./scrub.ts";
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

/** One request to a provider. `requestId` is ours; it helps the operator to find it in the provider's own logs. */
export interface UpstreamRequest extends EncodedRequest {
  readonly stream: boolean;
  readonly requestId: string;
}

/** One request and its answer. */
export interface UpstreamExchange {
  /** Resolves when the head of an answer with status 200 is there; rejects with UpstreamError. */
  readonly head: Promise<void>;
  /** Of the answer, once its head is there. */
  readonly status: number | undefined;
  /** The provider may have the request: it was written, at least its beginning, on a connection. */
  readonly isSent: boolean;
  /**
   * The next bytes of the answer; undefined at its proper end. One at a time; not before `head`. Rejects
   * with what `upstreamErrorOf` takes. It is no async function, for which each event of a stream would pay.
   */
  read(): Promise<Uint8Array | undefined>;
  /** What comes while a read waits is offered to `taker` first: where it says true, the read waits on. */
  offerTo(taker: (piece: Span) => boolean): void;
  /** From now on each read may wait so long. Until then a stream waits for its first content. */
  setReadTimeout(afterMs: number): void;
  /** Nobody waits for the provider until the next read, or until `expect`. */
  rest(): void;
  /** Somebody waits again for the read that is under way. */
  expect(): void;
  /** The answer is complete: the connection is kept if the body ends soon, else closed. */
  finished(): void;
  /** A failure that the answer reports, with all that it tells, in words that may be shown. */
  reported(failure: ReportedFailure): UpstreamError;
  /** Ends it at once, wherever it is. */
  abort(reason: UpstreamError): void;
}

/** The one way out to one provider. */
export interface Upstream {
  /** Requests under way, those of the upstream in whose place it came included. */
  readonly open: OpenRequests;
  send(request: UpstreamRequest): UpstreamExchange;
  /** Idle connections are closed now, the others as they end. */
  close(): void;
}

/** What is read of an error's body. */
const ERROR_BYTES_MAX = 64 * 1024;
const ERROR_BODY_TIMEOUT_MS = 5000;
/** How long a complete answer may take to end its framing, so that the connection can be used again. */
const ENDING_TIMEOUT_MS = 1000;

/**
 * The own HTTP/1.1 client is used, not `fetch`: that runs at most 256 requests at once in a process,
 * all providers together, keeps 64 idle sockets, takes a cut answer for a whole one and inflates what
 * nobody asked to be compressed. `bench/upstreamClients.ts` compares what each costs.
 */
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
    this.#deadline = new Deadline(clock, () => this.#http.abort(timedOut()));
    // This callback lives as long as the exchange: it must not capture the request (memory rules: docs/architecture.md).
    this.#http = client.send(request, () => {
      this.#isOver = true;
      this.#deadline.clear();
    });
    this.#expectWithin(stream ? provider.firstByteTimeoutMs : provider.totalTimeoutMs);
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
    this.expect();
    return this.#response.read();
  }

  offerTo(taker: (piece: Span) => boolean): void {
    this.#response?.offerTo((piece) => {
      // The taker has the last word: it may let the read rest.
      this.expect();
      return taker(piece);
    });
  }

  setReadTimeout(afterMs: number): void {
    this.#readTimeoutMs = afterMs;
    this.rest();
  }

  rest(): void {
    this.#expectWithin(Infinity);
  }

  expect(): void {
    if (this.#readTimeoutMs !== undefined) this.#expectWithin(this.#readTimeoutMs);
  }

  finished(): void {
    this.#expectWithin(ENDING_TIMEOUT_MS);
    void this.#endQuietly();
  }

  reported(failure: ReportedFailure): UpstreamError {
    const { fault, outcome, error } = failure;
    const details = detailsOf(fault, error.status, error, this.#options.secrets);
    return new UpstreamError(fault, outcome, { ...details, status: this.status, cause: failure });
  }

  abort(reason: UpstreamError): void {
    this.#http.abort(reason);
  }

  /** What comes behind the end of an answer belongs to nobody, and neither does its connection. */
  async #endQuietly(): Promise<void> {
    try {
      const surplus = await this.#response?.read();
      if (surplus !== undefined)
        this.#http.abort(new UpstreamError("provider", "unrequested data"));
    } catch {
      // The answer was complete before; of its connection nothing is left to be saved.
    }
  }

  /** The whole attempt's deadline counts always, besides the one of the moment. */
  #expectWithin(afterMs: number): void {
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
    // An error in the place of a stream tells whose fault it is.
    const failure = isJson && reportedFailureInText(await this.#beginningOf(response));
    if (failure) throw this.reported(failure);
    throw new UpstreamError("provider", "content type", { status: response.status });
  }

  async #errorOf(response: HttpResponse): Promise<UpstreamError> {
    const text = await this.#beginningOf(response);
    return errorOfReply(response.status, retryAfterOf(response), text, this.#options.secrets);
  }

  /** Of the body of an answer that is an error. */
  async #beginningOf(response: HttpResponse): Promise<string> {
    this.#expectWithin(ERROR_BODY_TIMEOUT_MS);
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
      // The head says enough; a body that is cut leaves only the words shorter.
    }
    return Buffer.concat(pieces).subarray(0, ERROR_BYTES_MAX).toString();
  }
}

function timedOut(): UpstreamError {
  return new UpstreamError("provider", "timeout");
}

/** Whatever went wrong with an attempt, in the gateway's terms. Undefined: a fault of our own, which says nothing of it. */
export function upstreamErrorOf(error: unknown): UpstreamError | undefined {
  if (error instanceof UpstreamError) return error;
  if (error instanceof ConnectionError)
    return new UpstreamError("provider", error.code, { cause: error });
  if (error instanceof UnsupportedRequestError) {
    const clientError = { message: error.message, extra: {} };
    return new UpstreamError("unsupported", "unsupported", { clientError });
  }
  // The caller can choose the size of an event, for example with `logprobs`: another route would send the same.
  if (error instanceof SseLimitError)
    return new UpstreamError("excessive", "too large", { cause: error });
  if (error instanceof AnswerError)
    return new UpstreamError(error.fault, error.outcome, { cause: error });
  if (error instanceof SseEncodingError)
    return new UpstreamError("provider", "invalid answer", { cause: error });
  return undefined;
}
