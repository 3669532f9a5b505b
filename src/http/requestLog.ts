import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { redactKeys, type Caller } from "../auth/apiKey.ts";
import type { LimitStates } from "../limits/rateLimits.ts";
import type { LogFields } from "../telemetry/log.ts";
import type { MeasuredEndpoint } from "../telemetry/metrics.ts";
import type { InFlightRequest } from "./inFlightRequest.ts";
import { pathStartOf } from "./requestPath.ts";

/** The client chooses these texts. They may contain a key. */
const CLIENT_TEXTS = ["path", "model"] as const;

/** The id of one HTTP request, and its log line. The line is written once, at the end of the request. */
export class RequestLog {
  readonly id: string;
  /** Set once the key is known. */
  caller: Caller | undefined;
  /** The state of the key's rate limits, for the headers of the answer. */
  limitStates: (() => LimitStates) | undefined;
  /** Set once the request is admitted. */
  inFlight: InFlightRequest | undefined;
  readonly #app: App;
  readonly #startedMs: number;
  readonly #path: string;
  readonly #fields: LogFields;
  #error: string | undefined;
  #isWritten = false;

  constructor(app: App, request: Request) {
    this.#app = app;
    this.id = app.newId("req");
    this.#startedMs = app.gateway.clock.monotonicMs();
    this.#path = pathOf(request.url);
    this.#fields = { request_id: this.id, method: request.method, path: this.#path };
  }

  addFields(fields: LogFields): void {
    Object.assign(this.#fields, fields);
  }

  /** Gives the log line the level `error`. For failures that the client did not cause. */
  setError(error: string): void {
    this.#error = error;
  }

  /**
   * Writes the log line; further calls do nothing. Counts the request in the metrics if it was refused. An admitted
   * request is counted when it is settled.
   */
  write(status: number): void {
    if (this.#isWritten) return;
    this.#isWritten = true;
    if (status >= 400 && this.#fields.outcome === undefined) {
      this.#app.gateway.metrics.requestRefused(endpointOf(this.#path), status);
    }
    for (const name of CLIENT_TEXTS) {
      const text = this.#fields[name];
      if (text !== undefined) this.#fields[name] = redactKeys(text);
    }
    const line: LogFields = {
      ...this.#fields,
      status,
      duration_ms: Math.round(this.#app.gateway.clock.monotonicMs() - this.#startedMs),
      ...(this.caller ? { account: this.caller.account, key: this.caller.publicId } : {}),
    };
    if (this.#error === undefined) this.#app.gateway.log.info("request", line);
    else this.#app.gateway.log.error("request", { ...line, error: this.#error });
  }
}

/** Finds the log of a request. The first call for a request creates it, with the request's id. */
export type RequestLogOf = (request: Request) => RequestLog;

/** The logs of all requests of one server, including requests that match no route. */
export function createRequestLogs(app: App): RequestLogOf {
  const logs = new WeakMap<Request, RequestLog>();
  return (request) => {
    const existing = logs.get(request);
    if (existing) return existing;
    const log = new RequestLog(app, request);
    logs.set(request, log);
    return log;
  };
}

/** The plugin that gives each route the request's log, which has the request's id. */
export function requestId(logOf: RequestLogOf) {
  return new Elysia({ name: "request-id" }).derive({ as: "global" }, ({ request }) => ({
    log: logOf(request),
  }));
}

function endpointOf(path: string): MeasuredEndpoint {
  if (path === "/v1/chat/completions") return "chat";
  if (path === "/v1/responses") return "responses";
  if (path === "/v1/account") return "account";
  if (path === "/v1/usage") return "usage";
  if (path.startsWith("/v1/requests/")) return "requests";
  return path === "/v1/models" || path.startsWith("/v1/models/") ? "models" : "other";
}

/** The path of a URL without its query: a query may contain a key. */
function pathOf(url: string): string {
  const start = pathStartOf(url);
  const query = url.indexOf("?", start);
  return start < 0 ? "" : url.slice(start, query < 0 ? undefined : query);
}
