import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { ApiError, invalidRequest, notFound, serviceUnavailable } from "../contract/errors.ts";
import { openapiText } from "../contract/openapi/openapi.ts";
import type { Passage } from "../limits/keyLimits.ts";
import { errorClass } from "../telemetry/log.ts";
import { showAccount } from "./account.ts";
import { errorAnswer, jsonAnswer } from "./answer.ts";
import { caller } from "./caller.ts";
import { health } from "./health.ts";
import { IDLE_TIMEOUT_SECONDS, postChat, postResponses } from "./completions.ts";
import { listModels, showModel } from "./models.ts";
import { showReceipt } from "./receipt.ts";
import { keepPath } from "./requestPath.ts";
import { createTraces } from "./trace.ts";
import { showUsage } from "./usage.ts";

/** Bun answers a larger body with a bare 413; ours is refused in words, long before. */
const BODY_BYTES_MAX = Number.MAX_SAFE_INTEGER;

/** A Host that could move the path: the rest of the URL is read from behind it. */
const FOREIGN_HOST = /[/?#@\\\s]/;

/** The HTTP surface, whole. */
export function createServer(app: App) {
  const traceOf = createTraces(app);
  /** An answer that waits for nothing; the request's place is given back first. */
  const answerAtOnce = (request: Request, passage: Passage, show: () => string): Response => {
    passage.release();
    return jsonAnswer(traceOf(request), 200, show());
  };
  return new Elysia({
    strictPath: true,
    normalize: false,
    serve: {
      idleTimeout: IDLE_TIMEOUT_SECONDS,
      maxRequestBodySize: BODY_BYTES_MAX,
      reusePort: false,
    },
  })
    .wrap(keepPath)
    .onRequest(({ request }) => {
      const isForeign = FOREIGN_HOST.test(request.headers.get("host") ?? "");
      return isForeign
        ? errorAnswer(traceOf(request), invalidRequest("invalid host header"))
        : undefined;
    })
    .onError(({ request, error, code }) => {
      const trace = traceOf(request);
      const shown = code === "NOT_FOUND" ? notFound() : apiErrorOf(error);
      if (shown.cause !== undefined) trace.fail(errorClass(shown.cause));
      return errorAnswer(trace, shown, app.isDraining ? { connection: "close" } : {});
    })
    .get("/healthz", ({ request }) => {
      const { status, body } = health(app);
      return jsonAnswer(traceOf(request), status, body);
    })
    .get("/openapi.json", ({ request }) => jsonAnswer(traceOf(request), 200, openapiText()))
    .group("/v1", (v1) =>
      v1
        .use(caller(app, traceOf))
        .post(
          "/chat/completions",
          ({ request, server, caller, passage }) =>
            postChat(app, { request, server, caller, passage, trace: traceOf(request) }),
          { parse: "none" },
        )
        .post(
          "/responses",
          ({ request, server, caller, passage }) =>
            postResponses(app, { request, server, caller, passage, trace: traceOf(request) }),
          { parse: "none" },
        )
        .get("/models", ({ request, caller, passage }) =>
          answerAtOnce(request, passage, () => listModels(app, caller)),
        )
        .get("/models/*", ({ request, caller, passage, params }) =>
          answerAtOnce(request, passage, () => showModel(app, caller, params["*"])),
        )
        .get("/account", ({ request, caller, passage }) =>
          answerAtOnce(request, passage, () => showAccount(app, caller)),
        )
        .get("/usage", async ({ request, caller, passage }) => {
          const body = await showUsage(app, { request, caller, passage });
          return jsonAnswer(traceOf(request), 200, body);
        })
        .get("/requests/*", ({ request, caller, passage, params }) =>
          answerAtOnce(request, passage, () => showReceipt(app, caller, params["*"])),
        ),
    );
}

function apiErrorOf(error: unknown): ApiError {
  return error instanceof ApiError ? error : serviceUnavailable(error);
}
