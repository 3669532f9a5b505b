import { Elysia } from "elysia";
import type { App } from "../../app.ts";
import { notFound } from "../../contract/errors.ts";
import type { RequestLogOf } from "../requestLog.ts";
import { pageResponse, pages } from "./pages.ts";

/** The plugin that serves the key holder's page. With `[server] page = false` its paths are unknown paths. */
export function pageRoutes(app: App, logOf: RequestLogOf) {
  const serve = async (request: Request): Promise<Response> => {
    const log = logOf(request);
    if (!app.gateway.current.config.server.page) throw notFound();
    const response = pageResponse(await pages.page(), log.path, request);
    if (response === undefined) throw notFound();
    response.headers.set("x-request-id", log.id);
    if (log.endsConnection) response.headers.set("connection", "close");
    log.write(response.status);
    return response;
  };
  // Not a part of the API: /openapi.json leaves them out.
  const hidden = { detail: { hide: true } };
  return new Elysia({ name: "page" })
    .get("/", ({ request }) => serve(request), hidden)
    .get("/assets/*", ({ request }) => serve(request), hidden);
}
