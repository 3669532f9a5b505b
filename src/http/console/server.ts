import { databaseName } from "../../config/database.ts";
import { Elysia, ValidationError } from "elysia";
import type { Operator } from "../../administration/operator.ts";
import { SessionAnswer, SessionRequest } from "../../contract/operator/consoleState.ts";
import { declaredRoute } from "../declaredRoute.ts";
import { pageResponse, pages } from "../pages/pages.ts";
import { keepPath } from "../requestPath.ts";
import { schemaProblem } from "../response.ts";
import { audit } from "./audit.ts";
import { changeEvents } from "./changeEvents.ts";
import { changeError, consoleError } from "./errors.ts";
import { guard, SESSION_PATH, signedOut } from "./guard.ts";
import { operationRoutes } from "./operationRoutes.ts";
import type { ConsoleSession } from "./session.ts";

/** Bun answers a larger body with an empty 413. The limit of an operation is lower, and its refusal has a message. */
const BODY_BYTES_MAX = 1024 * 1024;
/** Longer than the time between two comments of an event stream. */
const IDLE_TIMEOUT_SECONDS = 60;

/**
 * The HTTP server of the operator's console: its page, and the API that the page uses. `operator` gives the context of
 * each request. The server knows no keys and serves nothing to clients of the gateway.
 */
export function createConsoleServer(operator: () => Operator, session: ConsoleSession) {
  // Read before its first request, which reports a failure.
  pages.console().catch(() => undefined);
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
    .headers({ "cache-control": "no-store", "x-content-type-options": "nosniff" })
    .onRequest(({ request }) => {
      const refusal = guard(session, request);
      return refusal && consoleError(refusal.status, refusal.message);
    })
    .onError(({ code, error }) => {
      if (code === "NOT_FOUND") return consoleError(404, "not found");
      if (error instanceof ValidationError) return consoleError(400, schemaProblem(error));
      if (code === "PARSE") return consoleError(400, "the body is not JSON");
      return changeError(error, () => databaseName(operator().config.database));
    })
    .get("/", ({ request }) => page("/", request))
    .get("/assets/*", ({ request, params }) => page(`/assets/${params["*"]}`, request))
    .post(
      SESSION_PATH,
      ({ body, set }) => {
        const secrets = session.exchange(body.token);
        if (secrets === undefined) return consoleError(signedOut.status, signedOut.message);
        set.headers["set-cookie"] =
          `${session.cookieName}=${secrets.cookie}; HttpOnly; SameSite=Strict; Path=/`;
        return { page_secret: secrets.pageSecret };
      },
      declaredRoute({ body: SessionRequest, response: { 200: SessionAnswer } }),
    )
    .post("/api/session/end", () => {
      // After the answer has left.
      setTimeout(() => session.end(), END_AFTER_MS);
      return { ok: true } as const;
    })
    .get("/api/changes", ({ request }) => changeEvents(operator().store, session, request.signal))
    .use(operationRoutes(operator))
    .use(audit(operator));
}

const END_AFTER_MS = 50;

async function page(path: string, request: Request): Promise<Response> {
  const response = pageResponse(await pages.console(), path, request);
  return response ?? consoleError(404, "not found");
}
