import type { App } from "../../../src/app.ts";
import type { KeyLimits, RateLimitPermit } from "../../../src/limits/keyRates.ts";
import type { RateLimitAdmission, RateLimiter } from "../../../src/limits/rateLimits.ts";

export const noLimits: KeyLimits = {
  requestsPerMinute: 0,
  tokensPerMinute: 0,
  concurrentRequests: 0,
};

/** The decision of a limiter that counts in memory. */
export function admitNow(
  limiter: RateLimiter,
  keyId: number,
  limits: KeyLimits,
): RateLimitAdmission {
  const admission = limiter.admit(keyId, limits);
  if (admission instanceof Promise) throw new Error("the limiter asked somebody else");
  return admission;
}

/** A permit for a request of a key without limits. */
export function freePermit(app: App, keyId: number): RateLimitPermit {
  const admission = admitNow(app.rateLimiter, keyId, noLimits);
  if (!admission.ok) throw new Error("a key without limits met one");
  return admission.permit;
}
