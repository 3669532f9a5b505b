import type { App } from "../app.ts";
import type { RateLimitPermit } from "../limits/rateLimits.ts";

/** Bun's server. It closes an idle connection after a time-out, which can be set for each request. */
interface ConnectionTimeouts {
  timeout(request: Request, seconds: number): void;
}

/** How long a connection may be idle while the gateway's own time-outs do not apply. */
export const IDLE_TIMEOUT_SECONDS = 60;

/** A request with a permit, until its answer ends. It uses one slot of its key's concurrency. */
export class InFlightRequest {
  readonly #requests: App["requests"];
  readonly #permit: RateLimitPermit;
  readonly #request: Request;
  readonly #server: ConnectionTimeouts | null;
  #isWaiting = false;
  #isStream = false;
  #isEnded = false;

  constructor(
    requests: App["requests"],
    permit: RateLimitPermit,
    { request, server }: { request: Request; server: ConnectionTimeouts | null },
  ) {
    this.#requests = requests;
    this.#permit = permit;
    this.#request = request;
    this.#server = server;
    requests.begin();
  }

  /** The gateway's own time-outs apply from now on. Bun's would close the connection of a waiting request. */
  startWaiting(): void {
    this.#isWaiting = true;
    this.#server?.timeout(this.#request, 0);
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
    this.#permit.release();
    this.#requests.end();
    // A client that does not read the rest of the answer is disconnected.
    if (this.#isWaiting) this.#server?.timeout(this.#request, IDLE_TIMEOUT_SECONDS);
  }
}
