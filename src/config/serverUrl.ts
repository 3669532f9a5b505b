import { isPrivate } from "./address.ts";
import type { Inspection } from "./inspection.ts";

/**
 * Reads the address of a server, to which paths are appended. Problems go to the inspection. `credentials`: the keys of the
 * config that may hold a secret for this server.
 */
export function readServerUrl(
  text: string,
  key: string,
  credentials: string,
  inspection: Inspection,
): URL | undefined {
  const url = parseUrl(text);
  if (url === undefined) {
    inspection.problem(key, "must be a URL that begins with https:// or http://");
    return undefined;
  }
  if (url.username !== "" || url.password !== "") {
    inspection.problem(key, `must not contain a user or password: use ${credentials}`);
  }
  if (/[?#]/.test(text)) inspection.problem(key, "must not contain a query (?) or fragment (#)");
  return url;
}

/** Whether text sent to the address can be read on its way: http to an address that is not private. */
export function isUnencrypted(url: URL): boolean {
  return url.protocol === "http:" && !isPrivate(url.hostname);
}

/** The address without a slash at its end. */
export function baseOf(url: URL): string {
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

/** An http or https address. Blanks, control characters and backslashes, which the URL parser accepts, are refused. */
export function parseUrl(text: string): URL | undefined {
  const wellFormed = /^https?:\/\/[^\s\\\p{Cc}]+$/iu.test(text) && URL.canParse(text);
  return wellFormed ? new URL(text) : undefined;
}
