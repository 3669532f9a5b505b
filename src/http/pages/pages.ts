import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Elysia } from "elysia";
import type { App } from "../../app.ts";
import { notFound } from "../../contract/errors.ts";
import { lazy } from "../../lib/lazy.ts";
import type { RequestLogOf } from "../requestLog.ts";
import {
  ASSETS_PATH,
  bundlePage,
  encodings,
  type Encoding,
  type PageFile,
  type PageName,
} from "./bundle.ts";

/** The files of a page by their path: `/` is the HTML. */
export type Page = ReadonlyMap<string, PageFile>;

const HTML = "index.html";

/** Whether a path belongs to a page, also if the page has no such file. */
export function isPagePath(path: string): boolean {
  return path === "/" || path.startsWith(ASSETS_PATH);
}

/** The page, read at the first call. The executable carries it bundled; from the sources it is bundled then. */
export const pages: Readonly<Record<PageName, () => Promise<Page>>> = {
  page: lazy(() => loadPage("page")),
  console: lazy(() => loadPage("console")),
};

async function loadPage(name: PageName): Promise<Page> {
  const files = Bun.isStandaloneExecutable
    ? embeddedFiles(name)
    : await bundlePage(join(import.meta.dir, "../../.."), name);
  return new Map(
    files.map((file) => [file.name === HTML ? "/" : `${ASSETS_PATH}${file.name}`, file]),
  );
}

/** The build puts each file and its compressed forms into this folder. */
function embeddedFiles(page: PageName): readonly PageFile[] {
  const folder = join(import.meta.dir, "web", page);
  const read = (name: string) => new Uint8Array(readFileSync(join(folder, name)));
  const { br, gzip } = encodings;
  return readdirSync(folder)
    .filter((name) => !name.endsWith(br) && !name.endsWith(gzip))
    .map((name) => ({
      name,
      identity: read(name),
      br: read(name + br),
      gzip: read(name + gzip),
    }));
}

/**
 * No code and no style within the HTML, nothing from another origin, and no other page may frame or open this one.
 * https://www.w3.org/TR/CSP3/
 */
const securityHeaders = {
  "content-security-policy":
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

const YEAR_SECONDS = 31_536_000;

const contentTypes: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/** The answer for a path of the page; undefined if the page has no such file. 304 if the client has the file. */
export function pageResponse(page: Page, path: string, request: Request): Response | undefined {
  const file = page.get(path);
  if (file === undefined) return undefined;
  const isHtml = file.name === HTML;
  const etag = `W/"${Bun.hash(file.identity).toString(36)}"`;
  const headers: Record<string, string> = {
    ...securityHeaders,
    // A name with a hash never gets other content.
    "cache-control": isHtml ? "no-cache" : `public, max-age=${YEAR_SECONDS}, immutable`,
    vary: "accept-encoding",
    etag,
  };
  const known = request.headers.get("if-none-match")?.split(/\s*,\s*/) ?? [];
  if (known.includes(etag)) return new Response(null, { status: 304, headers });
  headers["content-type"] =
    contentTypes[file.name.replace(/^.*\./, "")] ?? "application/octet-stream";
  const encoding = acceptedEncoding(request.headers.get("accept-encoding") ?? "");
  const encoded = encoding && file[encoding];
  if (encoded) headers["content-encoding"] = encoding;
  return new Response(encoded ?? file.identity, { headers });
}

/** https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3 */
function acceptedEncoding(accepted: string): Encoding | undefined {
  const names = accepted
    .toLowerCase()
    .split(",")
    .filter((one) => !/;\s*q=0(\.0+)?\s*$/.test(one))
    .map((one) => one.replace(/;.*$/, "").trim());
  return (["br", "gzip"] as const).find((encoding) => names.includes(encoding));
}

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
