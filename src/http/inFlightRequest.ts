import type { App } from "../app.ts";
import type { Caller } from "../auth/knownKeys.ts";
import type { ConfigSnapshot, RequestContext } from "../gateway/gateway.ts";
import type { RateLimitPermit } from "../limits/keyRates.ts";
import { errorClass, type LogFields } from "../telemetry/log.ts";
import type { RequestSpan } from "../telemetry/tracing.ts";
import { peerOf, type ConnectionServer } from "./clientAddress.ts";
import type { RequestLog } from "./requestLog.ts";

/** How long a connection may be idle while the gateway's own time-outs do not apply. */
export const IDLE_TIMEOUT_SECONDS = 60;

/**
 * A request with a valid key and a permit, until its answer ends. It uses one slot of its key's concurrency. It lives as
 * long as a stream, so it never holds the body.
 */
export class InFlightRequest implements RequestContext {
  readonly request: Request;
  readonly log: RequestLog;
  readonly caller: Caller;
  readonly permit: RateLimitPermit;
  readonly snapshot: ConfigSnapshot;
  readonly #requests: App["requests"];
  readonly #server: ConnectionServer | null;
  #isWaiting = false;
  #isStream = false;
  #isEnded = false;

  constructor(
    app: App,
    arrived: { request: Request; server: ConnectionServer | null; log: RequestLog },
    admitted: { caller: Caller; permit: RateLimitPermit },
  ) {
    this.request = arrived.request;
    this.log = arrived.log;
    this.caller = admitted.caller;
    this.permit = admitted.permit;
    this.snapshot = app.gateway.current;
    this.#requests = app.requests;
    this.#server = arrived.server;
    app.requests.begin(this);
  }

  get requestId(): string {
    return this.log.id;
  }

  get signal(): AbortSignal {
    return this.request.signal;
  }

  get peer(): string | undefined {
    return peerOf(this.request, this.#server);
  }

  header(name: string): string | null {
    return this.request.headers.get(name);
  }

  get span(): RequestSpan | undefined {
    return this.log.span;
  }

  addLogFields(fields: LogFields): void {
    this.log.addFields(fields);
  }

  logFailure(error: unknown): void {
    this.log.setError(errorClass(error));
  }

  onStreamEnd(): void {
    this.end();
    this.log.write(200);
  }

  /** The gateway's own time-outs apply from now on. Bun's would close the connection of a waiting request. */
  startWaiting(): void {
    this.#isWaiting = true;
    this.#server?.timeout(this.request, 0);
  }

  /** The client sends its body. Bun's time-out applies if it stops. */
  startReading(): void {
    this.#isWaiting = false;
    this.#server?.timeout(this.request, IDLE_TIMEOUT_SECONDS);
  }

  /** Counts the answer as an open stream until the request ends. */
  startStreaming(): void {
    if (this.#isEnded) return;
    this.#isStream = true;
    this.#requests.openStreams += 1;
  }

  /** Releases the slot. Further calls do nothing. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (this.#isStream) this.#requests.openStreams -= 1;
    this.permit.release();
    this.#requests.end(this);
    // A client that does not read the rest of the answer is disconnected.
    if (this.#isWaiting) this.#server?.timeout(this.request, IDLE_TIMEOUT_SECONDS);
  }
}
