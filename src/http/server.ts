import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { openapiText } from "../contract/openapi/openapi.ts";
import { lazy } from "../lib/lazy.ts";
import { accountOf, getAccount, getReceipt, getUsage, receiptOf, usageOf } from "./account.ts";
import { createChatCompletion, createResponse } from "./completionRoutes.ts";
import { postChat, postResponses } from "./completions.ts";
import { getHealth, health } from "./health.ts";
import { IDLE_TIMEOUT_SECONDS, type InFlightRequest } from "./inFlightRequest.ts";
import { getModel, listModels, modelFor, modelsFor } from "./models.ts";
import { getDescription } from "./openapi.ts";
import { withSlashes } from "./pathId.ts";
import { authentication } from "./plugins/authentication.ts";
import { errors } from "./plugins/errors.ts";
import { createRequestLogs, requestId } from "./plugins/requestId.ts";
import type { RequestLog } from "./requestLog.ts";
import { keepPath } from "./requestPath.ts";
import { jsonResponse } from "./response.ts";

/** Bun answers a larger body with a bare 413; ours is refused in words, long before. */
const BODY_BYTES_MAX = Number.MAX_SAFE_INTEGER;

/** The type of the server, for Eden: `treaty<TollgateApp>(url)` is a client with typed calls. */
export type TollgateApp = ReturnType<typeof createServer>;

/**
 * The HTTP server with all its routes. The schemas of a route check its path and its query, give an Eden client its
 * types, and make /openapi.json. Elysia does not check an answer that is a `Response`, as all of ours are.
 */
export function createServer(app: App) {
  const logOf = createRequestLogs(app);
  const server = new Elysia({
    strictPath: true,
    normalize: false,
    serve: {
      idleTimeout: IDLE_TIMEOUT_SECONDS,
      maxRequestBodySize: BODY_BYTES_MAX,
      reusePort: false,
    },
  })
    .wrap(keepPath)
    .use(requestId(logOf))
    .use(errors(app, logOf))
    .get(
      "/healthz",
      ({ log }) => {
        const { status, body } = health(app);
        return jsonResponse(log, status, body);
      },
      getHealth,
    )
    .get("/openapi.json", ({ log }) => jsonResponse(log, 200, description()), getDescription)
    .group("/v1", (v1) =>
      v1
        .use(authentication(app, logOf))
        .post(
          "/chat/completions",
          ({ request, log, caller, permit, inFlight }) =>
            postChat(app, { request, log, caller, permit, inFlight }),
          createChatCompletion,
        )
        .post(
          "/responses",
          ({ request, log, caller, permit, inFlight }) =>
            postResponses(app, { request, log, caller, permit, inFlight }),
          createResponse,
        )
        .get(
          "/models",
          ({ log, caller, inFlight }) => answer(log, inFlight, modelsFor(app, caller)),
          listModels,
        )
        .get(
          withSlashes("/models/:id"),
          ({ log, caller, inFlight, params }) =>
            answer(log, inFlight, modelFor(app, caller, params.id)),
          getModel,
        )
        .get(
          "/account",
          ({ log, caller, inFlight }) => answer(log, inFlight, accountOf(app, caller)),
          getAccount,
        )
        .get(
          "/usage",
          async ({ request, log, caller, inFlight, query }) =>
            answer(log, inFlight, await usageOf(app, { request, caller, inFlight }, query)),
          getUsage,
        )
        .get(
          withSlashes("/requests/:id"),
          ({ log, caller, inFlight, params }) =>
            answer(log, inFlight, receiptOf(app, caller, params.id)),
          getReceipt,
        ),
    );
  const description: () => string = lazy(() => openapiText(server.routes));
  return server;
}

/** The answer of a route whose body is ready. Ends the request first, so that the key's slot is free for its next one. */
function answer(log: RequestLog, inFlight: InFlightRequest, body: object): Response {
  inFlight.end();
  return jsonResponse(log, 200, JSON.stringify(body));
}
