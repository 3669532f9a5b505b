/** Elysia 1.4.30 looks for the path from this character of the URL on: a shorter Host moves it. */
const ELYSIA_LOOKS_FROM = 11;

/** Long enough a Host for Elysia; nobody reads it. */
const ORIGIN = "http://localhost";

/** Where the path begins in the URL of a request. Bun 1.4.5 gives the path alone where the Host is absent or no text. */
export function pathStartOf(url: string): number {
  return url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("//") + 2);
}

/**
 * Runs before Elysia looks at a request, so that a short Host does not move its path. Elysia's own
 * `standardHostname: false` looks from the seventh character on, which over TLS is a slash of `https://`.
 */
export function keepPath<Handle>(handle: Handle, request: Request): Handle {
  const { url } = request;
  const start = pathStartOf(url);
  if (start !== url.indexOf("/", ELYSIA_LOOKS_FROM)) {
    Object.defineProperty(request, "url", { value: ORIGIN + url.slice(start) });
  }
  return handle;
}
