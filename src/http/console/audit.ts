import { Elysia } from "elysia";
import type { Operator } from "../../administration/operator.ts";
import { auditResult } from "../../contract/operator/auditResult.ts";
import type { ConsoleErrorBody } from "../../contract/operator/consoleState.ts";
import type { Store } from "../../store/store.ts";
import { consoleError } from "./errors.ts";

/** One rule of a large store takes longer than an idle connection stays open. */
const COMMENT_EVERY_MS = 15_000;

/**
 * POST /api/audit: server-sent events. `progress` events tell how far the audit is. The last event is `result`, with the
 * document of `tollgate audit --json`, or `error`. One audit runs at a time. It ends when the page leaves.
 */
export function audit(operator: () => Operator) {
  let isRunning = false;
  return new Elysia({ name: "audit" }).post(
    "/api/audit",
    ({ request }) => {
      if (isRunning) return consoleError(409, "an audit is running: wait for its result");
      isRunning = true;
      return auditEvents(operator().store, request.signal, () => {
        isRunning = false;
      });
    },
    { parse: "none" },
  );
}

function auditEvents(store: Store, signal: AbortSignal, ended: () => void): Response {
  const encoder = new TextEncoder();
  const running = new AbortController();
  const isEnded = () => running.signal.aborted;
  let timer: Timer | undefined;
  const stop = (): void => {
    if (isEnded()) return;
    clearInterval(timer);
    running.abort();
    ended();
  };
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      const send = (text: string): void => {
        if (!isEnded()) controller.enqueue(encoder.encode(text));
      };
      const sendEvent = (name: string, data: object): void =>
        send(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
      const finish = (name: string, data: object): void => {
        if (isEnded()) return;
        sendEvent(name, data);
        stop();
        controller.close();
      };
      const report = store.audit({
        onProgress: (progress) => sendEvent("progress", progress),
        signal: running.signal,
      });
      timer = setInterval(() => send(": running\n\n"), COMMENT_EVERY_MS);
      signal.addEventListener("abort", stop);
      report.then(
        (found) => finish("result", auditResult(found)),
        (error: unknown) => finish("error", errorBody(error)),
      );
    },
    cancel: stop,
  });
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}

function errorBody(error: unknown): ConsoleErrorBody {
  const message = error instanceof Error ? error.message : String(error);
  return { error: { message: `the audit failed: ${message}` } };
}
