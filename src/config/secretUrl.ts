import type { Inspection } from "./inspection.ts";
import { readNamedFile } from "./values.ts";

export interface Secret {
  /** The key that has it, for problems. */
  readonly key: string;
  readonly text: string;
  /** The absolute path of the file that contains it. Undefined: it stands in the config itself. */
  readonly file: string | undefined;
}

/**
 * A secret that stands in the config under `key`, or in the file `path`; `what` is its name in problems. Undefined if
 * neither is set. Problems go to the inspection.
 */
export function readSecret(
  key: string,
  literal = "",
  path = "",
  inspection: Inspection,
  what = "URL",
): Secret | undefined {
  const name = key.split(".").at(-1) ?? "";
  if (literal !== "" && path !== "")
    inspection.problem(`${key}_file`, `must not be set together with ${name}: keep one of them`);
  if (literal !== "") return { key, text: literal, file: undefined };
  if (path === "") return undefined;
  const content = readNamedFile(inspection, `${key}_file`, path)?.trim();
  if (content === "")
    inspection.problem(`${key}_file`, `the file is empty: write the ${what} into it`);
  return { key: `${key}_file`, text: content ?? "", file: inspection.absolutePath(path) };
}

/** How a password is written in a URL. */
export const ESCAPES = "write @ : / ? # % in a password as %40 %3A %2F %3F %23 %25";

/** One name or address. */
const HOST = /^(?:[A-Za-z0-9._-]+|\[[0-9a-f:.]+\])$/i;

/**
 * Checks the parts that every URL of a server with a password has. Undefined if it is no URL. `example` is the form in
 * messages. Problems go to the inspection.
 */
export function readSecretUrl(
  { text, key, file }: Secret,
  example: string,
  inspection: Inspection,
): URL | undefined {
  const url =
    /^[a-z]+:\/\/[^\s\\\p{Cc}]+$/iu.test(text) && URL.canParse(text) ? new URL(text) : null;
  if (!url || !isHost(url.hostname) || url.hash !== "") {
    inspection.problem(key, `must be a URL such as ${example}; ${ESCAPES}`);
    return undefined;
  }
  if (!isDecodable(url.username) || !isDecodable(url.password))
    inspection.problem(key, "has a % in its user or password: write it as %25");
  if (url.password !== "" && file === undefined) inspection.markSecret(key, url.password);
  return url;
}

/** Whether the text is the host of a URL of any scheme: one name or address. */
export function isHost(text: string): boolean {
  return HOST.test(text);
}

/** Whether the percent signs of a user or password are those of encoded characters. */
export function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
