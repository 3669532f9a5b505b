import { isLoopback } from "../../config/address.ts";
import { isPagePath } from "../pages/pages.ts";
import { pathStartOf } from "../requestPath.ts";
import type { ConsoleSession } from "./session.ts";

/**
 * The page's secret. Each request has it but the exchange of the token, where any value will do: a form of another site
 * cannot send the header.
 */
export const PAGE_HEADER = "x-tollgate-console";
/** The page sends it where no person acts: a reload after a change of the store. */
const REFRESH_HEADER = "x-tollgate-refresh";

export const SESSION_PATH = "/api/session";

export interface Refusal {
  readonly status: 401 | 403;
  readonly message: string;
}

/**
 * The one check of every request, before its route. All but the page itself and the exchange of the token need the
 * cookie of the session and the page's secret. A request of another site's page is refused, also one that reaches this
 * address by a name of its own (DNS rebinding). Undefined: allowed.
 */
export function guard(session: ConsoleSession, request: Request): Refusal | undefined {
  const { headers, method } = request;
  const path = pathOf(request.url);
  const host = headers.get("host") ?? "";
  if (!isLoopbackHost(host))
    return forbidden(
      `the console answers only at a loopback address, not at ${JSON.stringify(host)}`,
    );
  const origin = headers.get("origin");
  const isOwnOrigin = origin === `http://${host}`;
  if (origin !== null && !isOwnOrigin)
    return forbidden("another site's page may not use the console");
  if (isPagePath(path)) return undefined;
  const site = headers.get("sec-fetch-site") ?? "none";
  if (site !== "same-origin" && site !== "none")
    return forbidden("another site's page may not use the console");
  const isRead = method === "GET" || method === "HEAD";
  if (!isRead && !(isOwnOrigin && headers.has(PAGE_HEADER)))
    return forbidden(`a change needs the headers origin and ${PAGE_HEADER}`);
  if (path === SESSION_PATH) return undefined;
  const isUse = !headers.has(REFRESH_HEADER);
  const [cookie, pageSecret] = [headers.get("cookie") ?? "", headers.get(PAGE_HEADER) ?? ""];
  return session.accepts(cookie, pageSecret, isUse) ? undefined : signedOut;
}

export const signedOut: Refusal = {
  status: 401,
  message:
    "this address is not signed in or its session has ended: run `tollgate console` again, and open the address that it prints",
};

function forbidden(message: string): Refusal {
  return { status: 403, message };
}

/** Any port: `ssh -L` may forward another one. */
function isLoopbackHost(host: string): boolean {
  const [, name = ""] = /^(.*?)(?::\d+)?$/.exec(host) ?? [];
  return /^[\w.:[\]-]+$/.test(name) && isLoopback(name);
}

/** Elysia routes by the same part of the URL. */
function pathOf(url: string): string {
  const [path = ""] = url.slice(pathStartOf(url)).split("?");
  return path;
}
