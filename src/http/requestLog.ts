import type { App } from "../app.ts";
import { redactKeys } from "../auth/apiKey.ts";
import { redactCodes } from "../auth/voucherCode.ts";
import type { Caller } from "../auth/knownKeys.ts";
import type { KeyBuckets } from "../limits/keyRates.ts";
import type { LogFields } from "../telemetry/log.ts";
import type { RequestSpan } from "../telemetry/tracing.ts";
import { clientAddress, type ConnectionServer } from "./clientAddress.ts";
import { OTHER_ENDPOINT, type PathFinder } from "./knownPaths.ts";
import { pathStartOf } from "./requestPath.ts";

/** Texts that the client chooses. They may contain a key or the code of a voucher. */
const CLIENT_TEXTS = ["path", "model", "user_agent"] as const;

/** The interface whose form errors and the list of models have. */
export type ApiForm = "openai" | "anthropic";

/** Set while the config allows origins. */
export interface Cors {
  /** The origin of the request's page, if the config allows it. */
  readonly allowedOrigin: string | undefined;
}

/** The id of one HTTP request, and its log line. The line is written once, at the end of the request. */
export class RequestLog {
  readonly id: string;
  readonly form: ApiForm;
  readonly path: string;
  readonly address: string;
  readonly cors: Cors | undefined;
  /** Set once the key is known. */
  caller: Caller | undefined;
  /** The key's rate limits, for the headers of the answer. */
  limits: KeyBuckets | undefined;
  /** Set once the request is admitted. */
  inFlight: { end(): void } | undefined;
  /** Set if traces are sent. It ends with the log line. */
  span: RequestSpan | undefined;
  readonly #app: App;
  readonly #endpoint: string;
  readonly #startedMs: number;
  readonly #fields: LogFields;
  #error: string | undefined;
  #endsConnection = false;
  #isWritten = false;

  /** `path` has no query: a query may contain a key. `endpoint` is its label in metrics. */
  constructor(
    app: App,
    request: Request,
    server: ConnectionServer | null,
    { path, endpoint }: { readonly path: string; readonly endpoint: string },
  ) {
    const { method, headers } = request;
    const { config } = app.gateway.current;
    this.#app = app;
    this.id = app.newId("req");
    this.form = formOf(path, headers);
    this.cors = corsOf(config.server.corsOrigins, headers);
    this.#startedMs = this.nowMs();
    this.path = path;
    this.#endpoint = endpoint;
    this.address = clientAddress(request, server, config.limits.trustedProxies);
    this.#fields = { request_id: this.id, method, path };
    if (config.log.addresses) this.addFields(originOf(this.address, headers));
  }

  /** Whether the connection is closed behind the answer. */
  get endsConnection(): boolean {
    return this.#endsConnection || this.#app.phase !== "serving";
  }

  endConnection(): void {
    this.#endsConnection = true;
  }

  /** The monotonic time. */
  nowMs(): number {
    return this.#app.gateway.clock.monotonicMs();
  }

  /** Adds fields to the line, unless it is written already. */
  addFields(fields: LogFields): void {
    if (!this.#isWritten) Object.assign(this.#fields, fields);
  }

  /** Starts the span of a request with a valid key, if traces are sent. */
  startSpan({ method, headers, url }: Request, endpoint: string): void {
    const { tracing } = this.#app.gateway;
    if (!tracing) return;
    this.span = tracing.startRequest({
      requestId: this.id,
      endpoint,
      method,
      path: this.path,
      isSecure: url.startsWith("https:"),
      traceparent: headers.get("traceparent"),
      tracestate: headers.get("tracestate"),
    });
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
    this.span?.end(status);
    if (status >= 400 && this.#fields.outcome === undefined) {
      this.#app.gateway.metrics.requestRefused(this.#endpoint, status);
    }
    const fields = this.#fields;
    for (const name of CLIENT_TEXTS) {
      const text = fields[name];
      if (text !== undefined) fields[name] = redactCodes(redactKeys(text));
    }
    fields.status = status;
    fields.duration_ms = Math.round(this.nowMs() - this.#startedMs);
    if (this.caller) {
      fields.account = this.caller.account;
      fields.key = this.caller.publicId;
    }
    if (this.#error === undefined) {
      this.#app.gateway.log.info("request", fields);
    } else {
      fields.error = this.#error;
      this.#app.gateway.log.error("request_failed", fields);
    }
  }
}

/** Finds the log of a request. The first call for a request creates it, with the request's id. */
export type RequestLogOf = (request: Request) => RequestLog;

/** The logs of the requests that Elysia serves, also of requests that match no route. */
export function createRequestLogs(
  app: App,
  server: () => ConnectionServer | null,
  find: PathFinder,
): RequestLogOf {
  const logs = new WeakMap<Request, RequestLog>();
  return (request) => {
    const existing = logs.get(request);
    if (existing) return existing;
    const path = pathOf(request.url);
    const endpoint = find(path)?.endpoint ?? OTHER_ENDPOINT;
    const log = new RequestLog(app, request, server(), { path, endpoint });
    logs.set(request, log);
    return log;
  };
}

/** Where a request came from. A header has bytes of any encoding: what is not ASCII becomes `?`. */
function originOf(address: string, headers: Headers): LogFields {
  const agent = headers.get("user-agent")?.replace(/[^ -~]/g, "?");
  return agent ? { address, user_agent: agent } : { address };
}

/** `/v1/models` is in both interfaces. All of Anthropic's clients send `anthropic-version`, and no others do. */
function formOf(path: string, headers: Headers): ApiForm {
  if (isPathOrBelow(path, "/v1/messages")) return "anthropic";
  const isForAnthropic = isPathOrBelow(path, "/v1/models") && headers.has("anthropic-version");
  return isForAnthropic ? "anthropic" : "openai";
}

function corsOf(origins: readonly string[], headers: Headers): Cors | undefined {
  if (origins.length === 0) return undefined;
  const origin = headers.get("origin");
  return { allowedOrigin: origins.find((allowed) => allowed === origin) };
}

function isPathOrBelow(path: string, parent: string): boolean {
  return path.startsWith(parent) && (path.length === parent.length || path[parent.length] === "/");
}

/** The path of a URL without its query. */
function pathOf(url: string): string {
  const start = pathStartOf(url);
  const query = url.indexOf("?", start);
  return start < 0 ? "" : url.slice(start, query < 0 ? undefined : query);
}
