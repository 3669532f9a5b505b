import type { Gateway } from "./gateway.ts";

/**
 * Gives back what is held for requests that should have ended long ago, and tells the operator: there is a
 * fault in the gateway, for each path of a request ends its meter.
 */
export function endForgotten({ openMeters, log }: Pick<Gateway, "openMeters" | "log">): void {
  for (const requestId of openMeters.endForgotten()) {
    log.error("a request was never ended: its hold is released and nothing is charged", {
      request_id: requestId,
    });
  }
}
