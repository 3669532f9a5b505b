/** Statuses that say something each; of the others, a provider's invention among them, only the class is told. */
const STATUSES = new Set([
  400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529,
]);

/**
 * The outcome of an attempt as a label. It is `ok` or an UpstreamOutcome, and so one of some forty words, whatever a
 * provider answers: only the statuses are without a list of their own.
 */
export function attemptOutcome(outcome: string): string {
  const status = /^status (\d)\d\d$/.exec(outcome);
  if (!status || STATUSES.has(Number(outcome.slice("status ".length)))) return outcome;
  return `status ${status[1]}xx`;
}
