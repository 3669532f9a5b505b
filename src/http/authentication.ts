import { bearer } from "@elysiajs/bearer";
import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { authenticate, type Caller } from "../auth/knownKeys.ts";
import {
  type ApiError,
  invalidApiKey,
  rateLimitExceeded,
  serviceUnavailable,
} from "../contract/errors.ts";
import { ShuttingDown, type ConfigSnapshot, type Gateway } from "../gateway/gateway.ts";
import type { Admitted, Checked, RequestScope } from "../gateway/requestScope.ts";
import type { KeyLimits, RateLimitPermit } from "../limits/keyRates.ts";
import type { RateLimitAdmission } from "../limits/rateLimits.ts";
import { errorClass, type LogFields } from "../telemetry/log.ts";
import type { RequestSpan } from "../telemetry/tracing.ts";
import { peerOf, type ConnectionServer } from "./clientAddress.ts";
import type { RequestLog, RequestLogOf } from "./requestLog.ts";

/** The scheme in any case, spaces, the key, trailing blanks. Two headers arrive joined by a comma. */
const BEARER = /^bearer +([^\s,]+)[ \t]*$/i;
/** The key and trailing blanks. Two headers arrive joined by a comma. */
const X_API_KEY = /^([^\s,]+)[ \t]*$/;

/** A request that has arrived, and its log. */
interface ArrivedRequest {
  readonly request: Request;
  readonly server: ConnectionServer | null;
  readonly log: RequestLog;
}

/**
 * The key of the headers `authorization` (OpenAI's clients) and `x-api-key` (Anthropic's clients). An empty header counts
 * as absent. If both have a value, both must have the same key. A key in the URL does not count.
 */
export function presentedKey({ headers }: Request): string | undefined {
  const authorization = headers.get("authorization") ?? "";
  const apiKey = headers.get("x-api-key") ?? "";
  if (apiKey === "") return BEARER.exec(authorization)?.[1];
  const key = X_API_KEY.exec(apiKey)?.[1];
  return authorization === "" || BEARER.exec(authorization)?.[1] === key ? key : undefined;
}

/** Characters that people paste together with a key. A space or a tab after the key belongs to the header. */
const FOREIGN = {
  quotes: /["'`\u00ab\u00bb\u2018-\u201f]/,
  "a comma or semicolon": /[,;]/,
  "a line break or an invisible character": /\\[nrt]|%0[ad]|[^\S \t]|[\u200b-\u200f\u2060]/i,
} as const;
const BEFORE_KEY = new RegExp(`^(?:${FOREIGN.quotes.source})* *(?:bearer +)?`, "i");
const ONLY_FOREIGN = new RegExp(
  `^(?:${Object.values(FOREIGN)
    .map(({ source }) => source)
    .join("|")}|[ \t])*$`,
  "i",
);

/** Names what a header has around a word that may be a key. Undefined if there is nothing, or more than that. */
function foreignPart({ headers }: Request): string | undefined {
  for (const name of ["authorization", "x-api-key"]) {
    // Bun reads a header as Latin-1. Clients write UTF-8.
    const value = Buffer.from(headers.get(name) ?? "", "latin1").toString();
    const [start = ""] = BEFORE_KEY.exec(value) ?? [];
    const [, before = "", after = ""] =
      /^([^\w,;]*)[\w-]+(.*)$/s.exec(value.slice(start.length)) ?? [];
    const around = start.replace(/bearer/i, "") + before + after;
    if (!ONLY_FOREIGN.test(around)) continue;
    const found = Object.entries(FOREIGN).find(([, pattern]) => pattern.test(around));
    if (found) return found[0];
  }
  return undefined;
}

/** How long a connection may be idle while the gateway's own time-outs do not apply. */
export const IDLE_TIMEOUT_SECONDS = 60;

/**
 * A request with a valid key and a permit, until its answer ends. It uses one slot of its key's concurrency. It lives as
 * long as a stream, so it never holds the body.
 */
export class InFlightRequest implements RequestScope {
  readonly request: Request;
  readonly log: RequestLog;
  readonly caller: Caller;
  readonly permit: RateLimitPermit;
  readonly gateway: Gateway;
  readonly snapshot: ConfigSnapshot;
  readonly arrivedMs: number;
  checked: Checked | undefined = undefined;
  admitted: Admitted | undefined = undefined;
  readonly #requests: App["requests"];
  readonly #server: ConnectionServer | null;
  #isWaiting = false;
  #isStream = false;
  #isEnded = false;

  constructor(
    app: App,
    { request, server, log }: ArrivedRequest,
    caller: Caller,
    permit: RateLimitPermit,
  ) {
    this.request = request;
    this.log = log;
    this.caller = caller;
    this.permit = permit;
    this.gateway = app.gateway;
    this.snapshot = app.gateway.current;
    this.arrivedMs = app.gateway.clock.epochMs();
    this.#requests = app.requests;
    this.#server = server;
    app.requests.begin(this);
  }

  get requestId(): string {
    return this.log.id;
  }

  get signal(): AbortSignal {
    return this.request.signal;
  }

  get peer(): string | undefined {
    return peerOf(this.request, this.#server);
  }

  header(name: string): string | null {
    return this.request.headers.get(name);
  }

  get span(): RequestSpan | undefined {
    return this.log.span;
  }

  addLogFields(fields: LogFields): void {
    this.log.addFields(fields);
  }

  logFailure(error: unknown): void {
    this.log.setError(errorClass(error));
  }

  onStreamEnd(): void {
    this.end();
    this.log.write(200);
  }

  /** The gateway's own time-outs apply from now on. Bun's would close the connection of a waiting request. */
  startWaiting(): void {
    this.#isWaiting = true;
    this.#server?.timeout(this.request, 0);
  }

  /** Counts the answer as an open stream until the request ends. */
  startStreaming(): void {
    if (this.#isEnded) return;
    this.#isStream = true;
    this.#requests.openStreams += 1;
  }

  /** Releases the slot. Further calls do nothing. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (this.#isStream) this.#requests.openStreams -= 1;
    this.permit.release();
    this.#requests.end(this);
    // A client that does not read the rest of the answer is disconnected.
    if (this.#isWaiting) this.#server?.timeout(this.request, IDLE_TIMEOUT_SECONDS);
  }
}

/**
 * Checks the key (401), then the key's request rate and concurrency (429). It runs before query and body are read.
 * Throws ApiError, or rejects with it: it returns a Promise only if it has to wait.
 */
export function admit(
  app: App,
  arrived: ArrivedRequest,
  token: string | undefined,
): InFlightRequest | Promise<InFlightRequest> {
  if (app.phase === "refusing") throw serviceUnavailable(new ShuttingDown());
  const { knownKeys, clock } = app.gateway;
  const found = authenticate(token, knownKeys, clock.epochMs());
  if (!(found instanceof Promise)) return limit(app, arrived, found);
  return found.then(
    (caller) => limit(app, arrived, caller),
    (error: unknown) => {
      throw serviceUnavailable(error);
    },
  );
}

/** Counts an invalid key, or takes one request from the rate of a valid one. */
function limit(
  app: App,
  arrived: ArrivedRequest,
  caller: Caller | undefined,
): InFlightRequest | Promise<InFlightRequest> {
  if (caller === undefined) throw refusedKey(app, arrived);
  recordLastUse(app, caller, arrived.log.address);
  arrived.log.caller = caller;
  const admission = app.rateLimiter.admit(caller.id, limitsInForce(app, caller));
  if (!(admission instanceof Promise)) return begin(app, arrived, caller, admission);
  return admission.then((decided) => begin(app, arrived, caller, decided));
}

function begin(
  app: App,
  arrived: ArrivedRequest,
  caller: Caller,
  admission: RateLimitAdmission,
): InFlightRequest {
  const { log } = arrived;
  if (!admission.ok) {
    log.limits = admission.buckets;
    throw rateLimitExceeded(admission.retryAfterMs);
  }
  const { permit } = admission;
  log.limits = permit.buckets;
  // A stop that began while the request waited has not counted the request.
  if (app.phase === "refusing") {
    permit.release();
    throw serviceUnavailable(new ShuttingDown());
  }
  const inFlight = new InFlightRequest(app, arrived, caller, permit);
  log.inFlight = inFlight;
  return inFlight;
}

/**
 * The plugin of the routes that Elysia serves: it admits each request before Elysia checks path and query.
 *
 * `@elysiajs/bearer` refuses `bearer` in lower case, accepts `Bearerkey`, and without a header takes the token from the
 * URL (`?access_token=`). No option switches these off, so the header is normalised first. It also gets the key of
 * `x-api-key`.
 */
export function authentication(app: App, logOf: RequestLogOf) {
  return new Elysia({ name: "authentication" })
    .onTransform({ as: "scoped" }, ({ headers, request }) => {
      headers["authorization"] = `Bearer ${presentedKey(request) ?? ""}`;
    })
    .use(bearer())
    .derive({ as: "scoped" }, async ({ request, server, bearer: token }) => ({
      inFlight: await admit(app, { request, server, log: logOf(request) }, token),
    }));
}

/** The error for an invalid key: 401, or 429 for an address that has sent too many of them. */
function refusedKey(app: App, { request, log }: ArrivedRequest): ApiError {
  const { failedKeysPerMinute } = app.gateway.current.config.limits;
  const counted = app.failedKeyLimits.count(log.address, failedKeysPerMinute);
  return counted.ok ? invalidApiKey(foreignPart(request)) : rateLimitExceeded(counted.retryAfterMs);
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

/** The precision of `last_used_at` and `last_address`. A higher one would write to the database for every request. */
const LAST_USED_STEP_MS = 60_000;

function recordLastUse(app: App, caller: Caller, clientAddress: string): void {
  const at = app.gateway.clock.epochMs();
  if (caller.lastUsedAt !== null && at - caller.lastUsedAt < LAST_USED_STEP_MS) return;
  caller.lastUsedAt = at;
  const { writer, log, current } = app.gateway;
  const address = current.config.log.addresses ? clientAddress : null;
  writer
    .write({ kind: "touchKey", accountId: caller.accountId, keyId: caller.id, at, address })
    .catch((error: unknown) => log.warn("key_use_not_recorded", { error: errorClass(error) }));
}
