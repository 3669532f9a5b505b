import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { upgradeRefused } from "../contract/errors.ts";
import { clientApi } from "../contract/openapi/clientApi.ts";
import { openapiText } from "../contract/openapi/openapi.ts";
import { lazy } from "../lib/lazy.ts";
import type { ReadableMetrics } from "../telemetry/metrics.ts";
import { accountOf, getAccount, getUsage, usageOf } from "./account.ts";
import { authentication, IDLE_TIMEOUT_SECONDS, type InFlightRequest } from "./authentication.ts";
import {
  countMessageTokens,
  createChatCompletion,
  createEmbedding,
  createMessage,
  createResponse,
} from "./completionRoutes.ts";
import { serve, type Completion } from "./completions.ts";
import { options } from "./cors.ts";
import { getDescription } from "./declaredRoute.ts";
import { errors, jsonResponse } from "./response.ts";
import { getHealth, health } from "./health.ts";
import type { ConnectionServer } from "./clientAddress.ts";
import { pathFinder, type KnownPath } from "./knownPaths.ts";
import { getModel, listModels, modelFor, modelsFor } from "./models.ts";
import { createRequestLogs, type RequestLogOf } from "./requestLog.ts";
import { pageRoutes } from "./pages/pages.ts";
import { keepPath, withSlashes } from "./requestPath.ts";
import { createRedemption, redemptionOf } from "./vouchers.ts";
import { getReceipt, listRequests, receiptOf, requestsOf } from "./requests.ts";

/** Bun answers a larger body with an empty 413. `readBody` refuses a large body earlier, with a message. */
const BODY_BYTES_MAX = Number.MAX_SAFE_INTEGER;

/** A request for metrics has no body. */
const METRICS_BODY_BYTES_MAX = 1024;
const METRICS_IDLE_TIMEOUT_SECONDS = 30;

/** A request as Elysia hands it over. */
interface Arrival {
  readonly request: Request;
  readonly server: ConnectionServer | null;
}

/** A route of Bun's own router. */
interface DirectRoute {
  readonly POST: (request: Request, server: ConnectionServer | null) => Promise<Response>;
}

/** The type of the server for Eden: `treaty<TollgateApp>(url)` makes a client with typed calls. */
export type TollgateApp = ReturnType<typeof createServer>;

/**
 * The HTTP server of the API with all its routes. Elysia checks path and query by the schemas of the route. The same
 * schemas give an Eden client its types and make /openapi.json. Elysia does not check an answer that is a `Response`; all
 * answers are.
 *
 * Bun's router calls the POST handlers without Elysia, which would add a quarter to what the HTTP side of a request
 * costs. Their routes are declared in Elysia too: for the description, for an Eden client, and for a target such as
 * `/v1/./responses`, which Bun's router does not match.
 */
export function createServer(app: App) {
  const logOf = createRequestLogs(
    app,
    () => socketServer(),
    (path) => knownPath(path),
  );
  const direct: Record<string, DirectRoute> = {};
  /** The handler of a completion. Bun's router gets it too, and calls it without Elysia. */
  const post = (route: Completion) => {
    direct[route.path] = { POST: (request, server) => serve(app, route, request, server) };
    return ({ request, server }: Arrival) => serve(app, route, request, server);
  };
  const server = new Elysia(
    serverOptions(BODY_BYTES_MAX, IDLE_TIMEOUT_SECONDS, direct, app.sharesPort),
  )
    .wrap(keepPath)
    .use(errors(app, logOf, () => socketServer()))
    .use(options(app, logOf, (path) => knownPath(path)))
    .onRequest(({ request }) => refusedUpgrade(logOf, request))
    .use(pageRoutes(app, logOf))
    .get(
      "/healthz",
      ({ request }) => {
        const { status, body } = health(app);
        return jsonResponse(logOf(request), status, body);
      },
      getHealth,
    )
    .get(
      "/openapi.json",
      ({ request }) => jsonResponse(logOf(request), 200, description()),
      getDescription,
    )
    .post(createChatCompletion.path, post(createChatCompletion), createChatCompletion)
    .post(createResponse.path, post(createResponse), createResponse)
    .post(createMessage.path, post(createMessage), createMessage)
    .post(countMessageTokens.path, post(countMessageTokens), countMessageTokens)
    .post(createEmbedding.path, post(createEmbedding), createEmbedding)
    .group("/v1", (v1) =>
      v1
        .use(authentication(app, logOf))
        .get(
          "/models",
          ({ inFlight, query }) => answer(inFlight, modelsFor(app, inFlight, query)),
          listModels,
        )
        .get(
          withSlashes("/models/:id"),
          ({ inFlight, params }) => answer(inFlight, modelFor(app, inFlight, params.id)),
          getModel,
        )
        .get(
          "/account",
          async ({ inFlight }) => answer(inFlight, await accountOf(app, inFlight)),
          getAccount,
        )
        .get(
          "/usage",
          async ({ inFlight, query }) => answer(inFlight, await usageOf(app, inFlight, query)),
          getUsage,
        )
        .get(
          "/requests",
          async ({ inFlight, query }) => answer(inFlight, await requestsOf(app, inFlight, query)),
          listRequests,
        )
        .get(
          withSlashes("/requests/:id"),
          async ({ inFlight, params }) =>
            answer(inFlight, await receiptOf(app, inFlight.caller, params.id)),
          getReceipt,
        )
        .post(
          "/vouchers/redeem",
          async ({ inFlight }) => answer(inFlight, await redemptionOf(app, inFlight)),
          createRedemption,
        ),
    );
  const description: () => string = lazy(() => openapiText(clientApi, server.routes));
  const finder = lazy(() => pathFinder(server.routes));
  const knownPath = (path: string): KnownPath | undefined => finder()(path);
  const socketServer = (): ConnectionServer | null => server.server;
  return server;
}

/** The 426 for a WebSocket on the path of responses. On another path the request is a plain GET. */
function refusedUpgrade(logOf: RequestLogOf, request: Request): Response | undefined {
  const isWebSocket = /\bwebsocket\b/i.test(request.headers.get("upgrade") ?? "");
  if (!isWebSocket || request.method !== "GET") return undefined;
  const log = logOf(request);
  if (log.path !== "/v1/responses") return undefined;
  const { status, body, headers } = upgradeRefused;
  return jsonResponse(log, status, JSON.stringify(body), headers);
}

/** Ends the request before the answer, so that the key's next request gets the slot. */
function answer(inFlight: InFlightRequest, body: object): Response {
  inFlight.end();
  return jsonResponse(inFlight.log, 200, JSON.stringify(body));
}

/** The HTTP server for Prometheus: GET and HEAD /metrics. It requires no key. */
export function createMetricsServer(metrics: ReadableMetrics) {
  return new Elysia(serverOptions(METRICS_BODY_BYTES_MAX, METRICS_IDLE_TIMEOUT_SECONDS))
    .wrap(keepPath)
    .onError(({ code }) =>
      code === "NOT_FOUND" ? plainText(404, "not found\n") : plainText(500, "no metrics\n"),
    )
    .get("/metrics", async () => plainText(200, await metrics.read(), metrics.contentType));
}

function plainText(status: number, text: string, type = "text/plain; charset=utf-8"): Response {
  return new Response(text, {
    status,
    headers: { "content-type": type, "cache-control": "no-store" },
  });
}

function serverOptions(
  maxRequestBodySize: number,
  idleTimeout: number,
  routes: Readonly<Record<string, DirectRoute>> = {},
  reusePort = false,
) {
  return {
    strictPath: true,
    normalize: false,
    serve: { idleTimeout, maxRequestBodySize, reusePort, routes },
  } as const;
}
