import type { Inspection } from "./inspection.ts";
import { ESCAPES, isDecodable, isHost } from "./secretUrl.ts";

/** The protocols of a proxy. With `socks5h` the proxy resolves the names of its targets. */
const SCHEMES = ["http", "https", "socks5", "socks5h"];
/** The longest user or password: RFC 1929 gives the length of either in one byte. */
const SOCKS_LOGIN_BYTES_MAX = 255;

/**
 * The URL of a proxy without a slash at its end; undefined if there is none. A password in it is a secret. Problems go to the
 * inspection.
 */
export function readProxy(text: string, key: string, inspection: Inspection): string | undefined {
  if (text === "") return undefined;
  const scheme = /^(\w+):\/\//.exec(text)?.[1]?.toLowerCase() ?? "";
  if (!SCHEMES.includes(scheme)) {
    inspection.problem(key, "must begin with http://, https://, socks5:// or socks5h://");
    return undefined;
  }
  const form = `${scheme}://user:password@host:port`;
  const isWritten = /^\w+:\/\/[^\s\\\p{Cc}]+$/u.test(text) && URL.canParse(text);
  const url = isWritten ? new URL(text) : undefined;
  if (url === undefined || !isHost(url.hostname)) {
    inspection.problem(key, `must be a URL such as ${form}; ${ESCAPES}`);
    return undefined;
  }
  const { username, password, pathname } = url;
  if (username !== "" || password !== "") inspection.markSecret(key, password);
  if (!isDecodable(username) || !isDecodable(password))
    inspection.problem(key, "has a % in its user or password: write it as %25");
  else inspectLogin(url, key, inspection);
  if ((pathname !== "" && pathname !== "/") || /[?#]/.test(text))
    inspection.problem(key, `must be of the form "${form}" and nothing more; ${ESCAPES}`);
  return url.href.replace(/\/$/, "");
}

function inspectLogin(url: URL, key: string, inspection: Inspection): void {
  const user = decodeURIComponent(url.username);
  const password = decodeURIComponent(url.password);
  if (!url.protocol.startsWith("socks")) {
    // The user would end there: https://www.rfc-editor.org/rfc/rfc7617#section-2
    if (user.includes(":")) inspection.problem(key, "must not have a : in its user");
    return;
  }
  const bytes = [user, password].map((text) => Buffer.byteLength(text));
  if (bytes.some((count) => count > SOCKS_LOGIN_BYTES_MAX))
    inspection.problem(key, "must have a user and a password of at most 255 bytes");
  else if (bytes.includes(0) && bytes.some((count) => count > 0))
    inspection.problem(key, "must have a user and a password, or neither");
}
