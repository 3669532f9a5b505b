import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { ApiError, invalidRequest, notFound, serviceUnavailable } from "../contract/errors.ts";
import { openapiText } from "../contract/openapi/openapi.ts";
import type { RateLimitPermit } from "../limits/rateLimits.ts";
import { errorClass } from "../telemetry/log.ts";
import { showAccount } from "./account.ts";
import { errorResponse, jsonResponse } from "./response.ts";
import { authentication } from "./authentication.ts";
import { health } from "./health.ts";
import { postChat, postResponses } from "./completions.ts";
import { listModels, showModel } from "./models.ts";
import { IDLE_TIMEOUT_SECONDS } from "./place.ts";
import { showReceipt } from "./receipt.ts";
import { keepPath } from "./requestPath.ts";
import { createTraces, type Trace } from "./trace.ts";
import { showUsage } from "./usage.ts";

/** Bun answers a larger body with a bare 413; ours is refused in words, long before. */
const BODY_BYTES_MAX = Number.MAX_SAFE_INTEGER;

/** A Host that could move the path: the rest of the URL is read from behind it. */
const FOREIGN_HOST = /[/?#@\\\s]/;

/** The HTTP surface, whole. */
export function createServer(app: App) {
  const traceOf = createTraces(app);
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
        ? errorResponse(traceOf(request), invalidRequest("invalid host header"))
        : undefined;
    })
    .onError(({ request, error, code }) => {
      const trace = traceOf(request);
      const shown = code === "NOT_FOUND" ? notFound() : apiErrorOf(error);
      if (shown.cause !== undefined) trace.fail(errorClass(shown.cause));
      return errorResponse(trace, shown, app.isDraining ? { connection: "close" } : {});
    })
    .get("/healthz", ({ request }) => {
      const { status, body } = health(app);
      return jsonResponse(traceOf(request), status, body);
    })
    .get("/openapi.json", ({ request }) => jsonResponse(traceOf(request), 200, openapiText()))
    .group("/v1", (v1) =>
      v1
        .use(authentication(app, traceOf))
        .post(
          "/chat/completions",
          ({ request, server, trace, caller, permit }) =>
            postChat(app, { request, server, trace, caller, permit }),
          { parse: "none" },
        )
        .post(
          "/responses",
          ({ request, server, trace, caller, permit }) =>
            postResponses(app, { request, server, trace, caller, permit }),
          { parse: "none" },
        )
        .get("/models", ({ trace, caller, permit }) =>
          answerAtOnce(trace, permit, () => listModels(app, caller)),
        )
        .get("/models/*", ({ trace, caller, permit, params }) =>
          answerAtOnce(trace, permit, () => showModel(app, caller, params["*"])),
        )
        .get("/account", ({ trace, caller, permit }) =>
          answerAtOnce(trace, permit, () => showAccount(app, caller)),
        )
        .get("/usage", async ({ request, server, trace, caller, permit }) => {
          const body = await showUsage(app, { request, server, caller, permit });
          return jsonResponse(trace, 200, body);
        })
        .get("/requests/*", ({ trace, caller, permit, params }) =>
          answerAtOnce(trace, permit, () => showReceipt(app, caller, params["*"])),
        ),
    );
}

/** An answer that waits for nothing; the request's place is given back first. */
function answerAtOnce(trace: Trace, permit: RateLimitPermit, show: () => string): Response {
  permit.release();
  return jsonResponse(trace, 200, show());
}

function apiErrorOf(error: unknown): ApiError {
  return error instanceof ApiError ? error : serviceUnavailable(error);
}
