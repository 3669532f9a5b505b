import type { App } from "../app.ts";
import type { Caller } from "../auth/apiKey.ts";
import type { RateLimitPermit } from "../limits/rateLimits.ts";
import type { Trace } from "./trace.ts";

/** A request that was let in, as a route's handler gets it. */
export interface Entry {
  request: Request;
  trace: Trace;
  caller: Caller;
  permit: RateLimitPermit;
  /** Bun's server: it cuts a silent connection unless it is told not to. */
  server: { timeout(request: Request, seconds: number): void } | null;
}

/** How long a connection may be silent before and after the gateway's own time-outs count. */
export const IDLE_TIMEOUT_SECONDS = 60;

/** The place of a request that may have to wait, among those under way. */
export interface Place {
  /** From here on the gateway's own time-outs count: Bun's would cut a request that waits as it would a silent client. */
  waits(): void;
  /** It is answered by a stream, and counted as one until it leaves. */
  streams(): void;
  /** Gives the place back, once. */
  leave(): void;
}

export function takePlace(
  app: Pick<App, "requests">,
  { request, permit, server }: Pick<Entry, "request" | "permit" | "server">,
): Place {
  let isLeft = false;
  let isStream = false;
  app.requests.begin();
  return {
    waits: () => server?.timeout(request, 0),
    streams() {
      if (isLeft) return;
      isStream = true;
      app.requests.openStreams += 1;
    },
    leave() {
      if (isLeft) return;
      isLeft = true;
      if (isStream) app.requests.openStreams -= 1;
      permit.release();
      app.requests.end();
      // The connection is an idle one again, and a client that never takes its last bytes is cut off.
      server?.timeout(request, IDLE_TIMEOUT_SECONDS);
    },
  };
}
