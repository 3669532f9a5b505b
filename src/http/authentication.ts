import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { authenticate, type Caller } from "../auth/apiKey.ts";
import { invalidApiKey, rateLimitExceeded, serviceUnavailable } from "../contract/errors.ts";
import { ShuttingDown } from "../gateway/gateway.ts";
import type { KeyLimits, RateLimitPermit } from "../limits/rateLimits.ts";
import { clientAddress } from "./address.ts";
import { errorClass } from "../telemetry/log.ts";
import type { Trace, TraceOf } from "./trace.ts";

/** The scheme in any case, one or more spaces, the key, trailing blanks. Two headers come joined by a comma. */
const BEARER = /^bearer +([^\s,]+)[ \t]*$/i;

/** Every /v1 request passes here before its body is touched: who it is (401), and its rate (429). */
export function authentication(app: App, traceOf: TraceOf) {
  return new Elysia({ name: "authentication" }).derive({ as: "scoped" }, ({ request, server }) => {
    const trace = traceOf(request);
    if (app.isDraining) throw serviceUnavailable(new ShuttingDown());
    const token = BEARER.exec(request.headers.get("authorization") ?? "")?.[1];
    const who = identify(app, token, () =>
      clientAddress(request, server, app.gateway.current.config.limits.trustedProxies),
    );
    trace.caller = who;
    return { trace, caller: who, permit: letIn(app, trace, who) };
  });
}

function identify(app: App, token: string | undefined, address: () => string): Caller {
  const { store, clock, current } = app.gateway;
  const known = authenticate(token, store.keys, clock.epochMs());
  if (known) {
    touch(app, known);
    return known;
  }
  const failed = app.failedKeyLimits.count(address(), current.config.limits.failedKeysPerMinute);
  throw failed.ok ? invalidApiKey() : rateLimitExceeded(failed.retryAfterMs);
}

function letIn(app: App, trace: Trace, who: Caller): RateLimitPermit {
  const admission = app.rateLimiter.admit(who.id, limitsInForce(app, who));
  if (!admission.ok) {
    trace.limitStates = () => admission.states;
    throw rateLimitExceeded(admission.retryAfterMs);
  }
  trace.limitStates = () => admission.permit.states();
  return admission.permit;
}

/** The key's own limits, and the config's where it has none. */
export function limitsInForce(app: App, key: Pick<Caller, keyof KeyLimits>): KeyLimits {
  const { limits } = app.gateway.current.config;
  return {
    requestsPerMinute: key.requestsPerMinute ?? limits.requestsPerMinute,
    tokensPerMinute: key.tokensPerMinute ?? limits.tokensPerMinute,
    concurrentRequests: key.concurrentRequests ?? limits.concurrentRequests,
  };
}

/** How exact `last_used_at` is: more would write for every request. */
const LAST_USED_STEP_MS = 60_000;

function touch(app: App, who: Caller): void {
  const at = app.gateway.clock.epochMs();
  if (who.lastUsedAt !== null && at - who.lastUsedAt < LAST_USED_STEP_MS) return;
  app.gateway.writer.write({ kind: "touchKey", keyId: who.id, at }).catch((error: unknown) => {
    app.gateway.log.warn("the last use of a key was not recorded", {
      error: errorClass(error),
    });
  });
}
