import { Elysia } from "elysia";
import type { App } from "../../app.ts";
import { RequestLog } from "../requestLog.ts";

/** Finds the log of a request. The first call for a request gives it its id. */
export type RequestLogOf = (request: Request) => RequestLog;

/** The logs of all requests of one server. A request that no route matches has one too. */
export function createRequestLogs(app: App): RequestLogOf {
  const logs = new WeakMap<Request, RequestLog>();
  return (request) => {
    const known = logs.get(request);
    if (known) return known;
    const log = new RequestLog(app, request);
    logs.set(request, log);
    return log;
  };
}

/** Gives each route the request's log, which has the request's id. */
export function requestId(logOf: RequestLogOf) {
  return new Elysia({ name: "request-id" }).derive({ as: "global" }, ({ request }) => ({
    log: logOf(request),
  }));
}
