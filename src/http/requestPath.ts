import { Type } from "@sinclair/typebox";

/** Elysia 1.4.30 searches the URL for the path from this index on. A shorter Host would move the path. */
const ELYSIA_SEARCH_START = 11;

/** Stands for a Host that is too short for Elysia. No code reads it. */
const ORIGIN = "http://localhost";

/** The index at which the path begins. Bun 1.4.5 gives a URL without origin if the Host is absent or not text. */
export function pathStartOf(url: string): number {
  return url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("//") + 2);
}

/**
 * Runs before Elysia reads a request, so that a short Host does not move its path. Elysia's `standardHostname: false`
 * does not help: it searches from the seventh character, which over TLS is a slash of `https://`.
 */
export function keepPath<Handle>(handle: Handle, request: Request): Handle {
  const { url } = request;
  const start = pathStartOf(url);
  if (start !== url.indexOf("/", ELYSIA_SEARCH_START)) {
    Object.defineProperty(request, "url", { value: ORIGIN + url.slice(start) });
  }
  return handle;
}

/**
 * The path of a route whose parameter `:id` may contain slashes. Elysia's `:id` ends at a slash, so the route is
 * registered with `*`. The type keeps the name for Eden clients.
 */
export function withSlashes<Path extends string>(path: Path): Path {
  return path.replace(/:id$/, "*") as Path;
}

/** Declares the parameter `id` of such a route. Its value is not percent-decoded. */
export function idParameter(description: string) {
  return {
    params: Type.Object({ id: Type.String({ description }) }),
    transform: ({ params }: { params: Record<string, string> }): void => {
      params["id"] = params["*"] ?? "";
      delete params["*"];
    },
  };
}
