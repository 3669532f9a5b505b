import { redactKeys, type Caller } from "../auth/apiKey.ts";
import type { App } from "../app.ts";
import type { LimitStates } from "../limits/rateLimits.ts";
import type { LogFields } from "../telemetry/log.ts";
import type { MeasuredEndpoint } from "../telemetry/metrics.ts";
import { pathStartOf } from "./requestPath.ts";

/** The fields that are texts of the client's own: somebody may have put a key there. */
const CLIENT_TEXTS = ["path", "model"] as const;

/** What is known of one request while it is on its way; at its end it becomes one log line. */
export class Trace {
  readonly id: string;
  caller: Caller | undefined;
  limitStates: (() => LimitStates) | undefined;
  readonly #app: App;
  readonly #startedMs: number;
  readonly #path: string;
  readonly #fields: LogFields;
  #problem: string | undefined;
  #isOver = false;

  constructor(app: App, request: Request) {
    this.#app = app;
    this.id = app.newId("req");
    this.#startedMs = app.gateway.clock.monotonicMs();
    this.#path = pathOf(request.url);
    this.#fields = { request_id: this.id, method: request.method, path: this.#path };
  }

  note(fields: LogFields): void {
    Object.assign(this.#fields, fields);
  }

  /** The request failed by a fault that is not its client's; the line is written as an error. */
  fail(problem: string): void {
    this.#problem = problem;
  }

  /** Writes the log line, once. An error for which nothing was held is counted here, all else by its record. */
  end(status: number): void {
    if (this.#isOver) return;
    this.#isOver = true;
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
    if (this.#problem === undefined) this.#app.gateway.log.info("request", line);
    else this.#app.gateway.log.error("request", { ...line, error: this.#problem });
  }
}

/** Finds the trace of a request; makes it the first time. */
export type TraceOf = (request: Request) => Trace;

export function createTraces(app: App): TraceOf {
  const traces = new WeakMap<Request, Trace>();
  return (request) => {
    const known = traces.get(request);
    if (known) return known;
    const trace = new Trace(app, request);
    traces.set(request, trace);
    return trace;
  };
}

function endpointOf(path: string): MeasuredEndpoint {
  if (path === "/v1/chat/completions") return "chat";
  if (path === "/v1/responses") return "responses";
  if (path === "/v1/account") return "account";
  if (path === "/v1/usage") return "usage";
  if (path.startsWith("/v1/requests/")) return "requests";
  return path === "/v1/models" || path.startsWith("/v1/models/") ? "models" : "other";
}

/** Without the query. */
function pathOf(url: string): string {
  const start = pathStartOf(url);
  const query = url.indexOf("?", start);
  return start < 0 ? "" : url.slice(start, query < 0 ? undefined : query);
}
