import type { App } from "../app.ts";
import { Trace } from "./trace.ts";

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
