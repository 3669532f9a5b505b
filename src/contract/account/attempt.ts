import { Type, type Static } from "@sinclair/typebox";
import { oneOf } from "../requestFields.ts";

/** How an attempt ended, as key holders see it. It names no provider and nothing of the operator's account there. */
const attemptOutcomes = [
  "ok",
  "refused",
  "unavailable",
  "timeout",
  "failed",
  "cancelled",
  "internal_error",
] as const;
export type AttemptOutcome = (typeof attemptOutcomes)[number];

/** One attempt to get an answer. */
export type Attempt = Static<typeof Attempt>;
export const Attempt = Type.Object({
  outcome: oneOf(attemptOutcomes, {
    description:
      "`ok`: it answered; `refused`: the request was refused as invalid; `unavailable`: there was no connection, or no service; `timeout`: it took too long; `failed`: the answer was not usable, or broke off; `cancelled`: the client disconnected; `internal_error`: the gateway failed or shut down.",
  }),
  duration_ms: Type.Integer({ minimum: 0 }),
});

/** Recorded outcomes that are not `unavailable`. All statuses of a provider's answer are, unless they are listed. */
const outcomes: ReadonlyMap<string, AttemptOutcome> = new Map([
  ["ok", "ok"],
  ["status 400", "refused"],
  ["status 409", "refused"],
  ["status 413", "refused"],
  ["status 422", "refused"],
  ["unsupported", "refused"],
  ["timeout", "timeout"],
  ["closed", "failed"],
  ["protocol", "failed"],
  ["compressed", "failed"],
  ["content type", "failed"],
  ["empty answer", "failed"],
  ["endless answer", "failed"],
  ["incomplete answer", "failed"],
  ["invalid answer", "failed"],
  ["isolated failure", "failed"],
  ["reported failure", "failed"],
  ["too large", "failed"],
  ["unrequested data", "failed"],
  ["client disconnected", "cancelled"],
  ["database", "internal_error"],
  ["descriptors", "internal_error"],
  ["internal error", "internal_error"],
  ["shutdown", "internal_error"],
]);

/** An attempt as the store records it, without its provider and the provider's status. */
export function attemptForm(attempt: { outcome: string; durationMs: number }): Attempt {
  return {
    outcome: outcomes.get(attempt.outcome) ?? "unavailable",
    duration_ms: attempt.durationMs,
  };
}
