import type { Gateway } from "./gateway.ts";

/** How often the gateway looks for requests whose end a fault of its own forgot. */
const WATCH_MS = 30_000;

type Watched = Pick<Gateway, "openMeters" | "log">;

/** Looks for forgotten requests until the timer is cleared. The timer does not keep the process alive. */
export function watchForgotten(gateway: Watched): Timer {
  return setInterval(() => endForgotten(gateway), WATCH_MS).unref();
}

/**
 * Gives back what is held for requests that should have ended long ago, and tells the operator: there is a
 * fault in the gateway, for each path of a request ends its meter.
 */
export function endForgotten({ openMeters, log }: Watched): void {
  for (const requestId of openMeters.endForgotten()) {
    log.error(
      "internal fault: a request did not end; its hold is released and nothing is charged",
      {
        request_id: requestId,
      },
    );
  }
}
