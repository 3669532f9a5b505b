import { bearer } from "@elysiajs/bearer";
import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { authenticate, type Caller } from "../auth/apiKey.ts";
import { canonicalIp } from "../config/address.ts";
import { invalidApiKey, rateLimitExceeded, serviceUnavailable } from "../contract/errors.ts";
import { ShuttingDown } from "../gateway/gateway.ts";
import type { KeyLimits, RateLimitPermit } from "../limits/rateLimits.ts";
import { errorClass } from "../telemetry/log.ts";
import { InFlightRequest } from "./inFlightRequest.ts";
import { requestId, type RequestLog, type RequestLogOf } from "./requestLog.ts";

/** A request with a valid key and a permit, as the handler of a route gets it. */
export interface AdmittedHttpRequest {
  readonly request: Request;
  readonly log: RequestLog;
  readonly caller: Caller;
  readonly permit: RateLimitPermit;
  readonly inFlight: InFlightRequest;
}

/** The form that nearly all clients send. It needs no change. */
const CANONICAL = /^Bearer [^\s,]+$/;

/** The scheme in any case, one or more spaces, the key, trailing blanks. Two headers arrive joined by a comma. */
const ACCEPTED = /^bearer +([^\s,]+)[ \t]*$/i;

/**
 * The plugin of all /v1 routes. Before query and body are read, it checks the key (401), then the key's request rate
 * and concurrency (429).
 *
 * `@elysiajs/bearer` takes the token from the Authorization header. It refuses `bearer` in lower case and accepts
 * `Bearerkey`. If no header begins with the scheme, it takes the token from the URL (`?access_token=`). No option
 * switches these off. The header is therefore normalised first: it always begins with `Bearer `, and it has a token only
 * if the client sent exactly one scheme and one token.
 */
export function authentication(app: App, logOf: RequestLogOf) {
  return new Elysia({ name: "authentication" })
    .use(requestId(logOf))
    .onTransform({ as: "scoped" }, ({ headers }) => {
      const authorization = headers["authorization"] ?? "";
      if (CANONICAL.test(authorization)) return;
      headers["authorization"] = `Bearer ${ACCEPTED.exec(authorization)?.[1] ?? ""}`;
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
  const { knownKeys, clock, current } = app.gateway;
  const caller = authenticate(token, knownKeys, clock.epochMs());
  if (caller) {
    recordLastUse(app, caller);
    return caller;
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

/** The limits of the key. The config's limit applies where the key has none. */
export function limitsInForce(app: App, key: Pick<Caller, keyof KeyLimits>): KeyLimits {
  const { limits } = app.gateway.current.config;
  return {
    requestsPerMinute: key.requestsPerMinute ?? limits.requestsPerMinute,
    tokensPerMinute: key.tokensPerMinute ?? limits.tokensPerMinute,
    concurrentRequests: key.concurrentRequests ?? limits.concurrentRequests,
  };
}

/** The precision of `last_used_at`. A higher one would write to the database for every request. */
const LAST_USED_STEP_MS = 60_000;

function recordLastUse(app: App, caller: Caller): void {
  const at = app.gateway.clock.epochMs();
  if (caller.lastUsedAt !== null && at - caller.lastUsedAt < LAST_USED_STEP_MS) return;
  caller.lastUsedAt = at;
  app.gateway.writer.write({ kind: "touchKey", keyId: caller.id, at }).catch((error: unknown) => {
    app.gateway.log.warn("the last use of a key was not recorded", {
      error: errorClass(error),
    });
  });
}

/** Bun's server. It knows the address of the socket; null for a unix socket. */
interface AddressSource {
  requestIP(request: Request): { address: string } | null;
}

/** The address of a client on a unix socket. */
const LOCAL = "127.0.0.1";

/** An IPv6 address in brackets, with or without a port, or an IPv4 address with a port. */
const ADDRESS_WITH_PORT = /^(?:\[([^[\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/;

/**
 * The client's address. This is the address of the socket. If that is a trusted proxy, it is the last entry of
 * X-Forwarded-For that is not a trusted proxy. The client can invent all entries before that one. If that entry is not
 * an address, the address of the socket counts.
 */
function clientAddress(
  request: Request,
  source: AddressSource | null,
  trustedProxies: readonly string[],
): string {
  const socketAddress = source?.requestIP(request)?.address ?? LOCAL;
  const address = canonicalIp(socketAddress) ?? socketAddress;
  if (!trustedProxies.includes(address)) return address;
  const forwarded = (request.headers.get("x-forwarded-for") ?? "")
    .split(",")
    .map((entry) => entry.trim())
    // Empty list elements are ignored: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.1.2
    .filter((entry) => entry !== "")
    .map(addressIn);
  const nearest = forwarded.findLast(
    (entry) => entry === undefined || !trustedProxies.includes(entry),
  );
  return nearest ?? address;
}

/** Some proxies write the client's port too. */
function addressIn(entry: string): string | undefined {
  const [, bracketed, beforePort] = ADDRESS_WITH_PORT.exec(entry) ?? [];
  return canonicalIp(bracketed ?? beforePort ?? entry);
}
