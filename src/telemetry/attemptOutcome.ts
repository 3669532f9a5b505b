/** How an attempt can end besides a provider's status: the words of UpstreamError and ConnectionError. */
const WORDS = new Set([
  "ok",
  "answer",
  "client gone",
  "closed",
  "compressed",
  "content type",
  "cut",
  "dns",
  "empty answer",
  "internal",
  "misfire",
  "protocol",
  "proxy",
  "refused",
  "reported failure",
  "request",
  "runaway",
  "shutdown",
  "store",
  "surplus",
  "timeout",
  "tls",
  "too large",
  "unfit",
  "unreachable",
]);

/** Statuses that say something each; of the others, a provider's invention among them, only the class is told. */
const STATUSES = new Set([
  400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529,
]);

/** The outcome of an attempt as a label: one of some forty words, whatever a provider answers. */
export function attemptOutcome(outcome: string): string {
  if (WORDS.has(outcome)) return outcome;
  const status = /^status (\d)\d\d$/.exec(outcome);
  if (!status) return "other";
  return STATUSES.has(Number(outcome.slice("status ".length))) ? outcome : `status ${status[1]}xx`;
}
