import type { Clock } from "../lib/clock.ts";
import type { ConnectionError } from "../providers/upstream.ts";

/**
 * Why a recipient did not take a notice.
 * - `status`: the webhook answered another status than 2xx, or the mail server refused the mail
 * - `starttls`: the mail server offers no STARTTLS, or refuses it
 * - `login`: the mail server refuses the user or the password, or offers no login
 * - the others: no connection, or no answer
 */
export type FailureReason = ConnectionError["code"] | "status" | "starttls" | "login";

export interface AttemptFailure {
  readonly reason: FailureReason;
  /** The HTTP status, or the reply code of the mail server, if there is one. */
  readonly status: number | undefined;
  /** Why, if the code alone does not say it. */
  readonly cause?: unknown;
  /** Another attempt cannot help. */
  readonly isFinal: boolean;
}

export interface AttemptOptions {
  readonly clock: Clock;
  /** For the whole attempt. */
  readonly timeoutMs: number;
  /** Ends the attempt at once. */
  readonly signal: AbortSignal;
}
