import { Elysia } from "elysia";
import type { App } from "../app.ts";
import { notFound } from "../contract/errors.ts";
import type { PathFinder } from "./knownPaths.ts";
import { isPagePath } from "./pages/pages.ts";
import type { RequestLogOf } from "./requestLog.ts";
import { emptyResponse, errorResponse } from "./response.ts";

/** Browsers keep the answer to a preflight this long. A removed origin can send requests until then, but reads nothing. */
const PREFLIGHT_SECONDS = "600";

/** The longest list of header names that a preflight may ask for. */
const REQUESTED_HEADERS_MAX = 4096;
/** Names of headers, separated by commas: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2 */
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~-]+(?:[ \t]*,[ \t]*[\w!#$%&'*+.^`|~-]+)*$/;

/**
 * The plugin that answers OPTIONS on the path of every route: 204 with the methods of the path. It needs no key, because
 * browsers send none. The answer to a preflight of an allowed origin also has the CORS headers
 * (https://fetch.spec.whatwg.org/#http-cors-protocol). For another origin it has none, so the browser refuses.
 */
export function options(app: App, logOf: RequestLogOf, find: PathFinder) {
  return new Elysia({ name: "options" }).onRequest(({ request }) => {
    if (request.method !== "OPTIONS") return;
    const log = logOf(request);
    const isServed = isPagePath(log.path) ? app.gateway.current.config.server.page : true;
    const methods = isServed ? find(log.path)?.methods : undefined;
    if (methods === undefined) return errorResponse(app, log, notFound());
    const allow = { allow: methods };
    const isAllowed = log.cors?.allowedOrigin !== undefined;
    return emptyResponse(log, isAllowed ? { ...allow, ...preflight(request, methods) } : allow);
  });
}

/** The headers for a preflight; none for any other OPTIONS request. */
function preflight({ headers }: Request, methods: string): Readonly<Record<string, string>> {
  if (!headers.has("access-control-request-method")) return {};
  const names = headers.get("access-control-request-headers") ?? "";
  const areAllowed = names.length <= REQUESTED_HEADERS_MAX && HEADER_NAMES.test(names);
  return {
    "access-control-allow-methods": methods,
    ...(areAllowed ? { "access-control-allow-headers": names } : {}),
    "access-control-max-age": PREFLIGHT_SECONDS,
  };
}
