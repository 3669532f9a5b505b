import { bearer } from "@elysiajs/bearer";
import { Elysia } from "elysia";
import type { App } from "../../app.ts";
import { authenticate, type Caller } from "../../auth/apiKey.ts";
import { invalidApiKey, rateLimitExceeded, serviceUnavailable } from "../../contract/errors.ts";
import { ShuttingDown } from "../../gateway/gateway.ts";
import type { KeyLimits, RateLimitPermit } from "../../limits/rateLimits.ts";
import { errorClass } from "../../telemetry/log.ts";
import { clientAddress } from "../clientAddress.ts";
import { InFlightRequest } from "../inFlightRequest.ts";
import type { RequestLog } from "../requestLog.ts";
import { requestId, type RequestLogOf } from "./requestId.ts";

/** An admitted request, as the handler of a route gets it. */
export interface AdmittedHttpRequest {
  readonly request: Request;
  readonly log: RequestLog;
  readonly caller: Caller;
  readonly permit: RateLimitPermit;
  readonly inFlight: InFlightRequest;
}

/** The scheme in any case, one or more spaces, the key, trailing blanks. Two headers come joined by a comma. */
const BEARER = /^bearer +([^\s,]+)[ \t]*$/i;

/**
 * Each /v1 request passes here before its query and its body are looked at: the key (401), then the key's request rate
 * and concurrency (429).
 *
 * `@elysiajs/bearer` takes the token from the Authorization header. By itself it refuses `bearer` in lower case, accepts
 * `Bearerkey`, and where no header begins with the scheme it takes the token from the URL (`?access_token=`). Both
 * cannot be switched off by its options. So the header is normalised first: it always begins with `Bearer `, and there
 * is no token behind it unless the header is exactly one scheme and one token.
 */
export function authentication(app: App, logOf: RequestLogOf) {
  return new Elysia({ name: "authentication" })
    .use(requestId(logOf))
    .onTransform({ as: "scoped" }, ({ headers }) => {
      headers["authorization"] = `Bearer ${BEARER.exec(headers["authorization"] ?? "")?.[1] ?? ""}`;
    })
    .use(bearer())
    .derive({ as: "scoped" }, ({ request, server, bearer, log }) => {
      if (app.isDraining) throw serviceUnavailable(new ShuttingDown());
      const caller = identify(app, bearer, () =>
        clientAddress(request, server, app.gateway.current.config.limits.trustedProxies),
      );
      log.caller = caller;
      const permit = admit(app, log, caller);
      const inFlight = new InFlightRequest(app.requests, permit, { request, server });
      log.inFlight = inFlight;
      return { caller, permit, inFlight };
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

function admit(app: App, log: RequestLog, caller: Caller): RateLimitPermit {
  const admission = app.rateLimiter.admit(caller.id, limitsInForce(app, caller));
  if (!admission.ok) {
    log.limitStates = () => admission.states;
    throw rateLimitExceeded(admission.retryAfterMs);
  }
  log.limitStates = () => admission.permit.states();
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

function touch(app: App, caller: Caller): void {
  const at = app.gateway.clock.epochMs();
  if (caller.lastUsedAt !== null && at - caller.lastUsedAt < LAST_USED_STEP_MS) return;
  app.gateway.writer.write({ kind: "touchKey", keyId: caller.id, at }).catch((error: unknown) => {
    app.gateway.log.warn("the last use of a key was not recorded", {
      error: errorClass(error),
    });
  });
}
