import type { App } from "../app.ts";
import type { RateLimitPermit } from "../limits/rateLimits.ts";

/** Bun's server. It closes a silent connection after a time-out, which can be changed for each request. */
interface ConnectionTimeouts {
  timeout(request: Request, seconds: number): void;
}

/** How long a connection may be silent while the gateway's own time-outs do not count. */
export const IDLE_TIMEOUT_SECONDS = 60;

/** An admitted request that is not answered yet. It holds one slot of its key's concurrency. */
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

  /** From here on the gateway's own time-outs count. Bun's would close the connection of a request that waits. */
  startWaiting(): void {
    this.#isWaiting = true;
    this.#server?.timeout(this.#request, 0);
  }

  /** The answer is a stream. It is counted as one until the request ends. */
  startStreaming(): void {
    if (this.#isEnded) return;
    this.#isStream = true;
    this.#requests.openStreams += 1;
  }

  /** Gives the slot back. Further calls do nothing. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (this.#isStream) this.#requests.openStreams -= 1;
    this.#permit.release();
    this.#requests.end();
    // The connection is idle again. A client that does not take the rest of the answer is disconnected.
    if (this.#isWaiting) this.#server?.timeout(this.#request, IDLE_TIMEOUT_SECONDS);
  }
}
