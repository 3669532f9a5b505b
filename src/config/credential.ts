import { joinKey, type Inspection } from "./inspection.ts";
import { readKeyCommand, type commandOptions, type KeyIssuer } from "./keyIssuer.ts";
import type { Values } from "./option.ts";
import type { Secret } from "./secretUrl.ts";

const HEADERS_MAX = 64;

/** Headers that the gateway or the HTTP connection sets. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "x-request-id",
]);

/** The key and the headers that a provider gets. */
export interface Credential {
  readonly apiKey: string | undefined;
  /** How a key that expires is got. Undefined: `apiKey` is sent as it is. */
  readonly issuer: KeyIssuer | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether there is a key or a header that may hold one. */
  readonly present: boolean;
}

/** The problem of headers beside a key. */
export const ONE_CREDENTIAL =
  "must not contain authorization when api_key is set: keep one of them";

/**
 * Checks the key and the headers of one provider. Only one of them may authenticate. `login`: how a key is got for the key of
 * the config.
 */
export function readCredential(
  given: Values<typeof commandOptions> & {
    readonly apiKey: Secret | undefined;
    readonly headers: Readonly<Record<string, string>>;
  },
  login: KeyIssuer | undefined,
  at: string,
  inspection: Inspection,
): Credential {
  const apiKey = given.apiKey && checkKey(given.apiKey, inspection);
  const command = readKeyCommand(given, inspection);
  const headers = readHeaders(given.headers, `${at}.headers`, inspection);
  const isKeySet = apiKey !== undefined || command !== undefined;
  if (isKeySet && "authorization" in headers) {
    inspection.problem(`${at}.headers`, ONE_CREDENTIAL);
  }
  if (command !== undefined && apiKey !== undefined)
    inspection.problem(
      `${at}.api_key_command`,
      `must not be set together with api_key: ${KEEP_ONE}`,
    );
  if (command !== undefined && login !== undefined)
    inspection.problem(`${at}.api_key_command`, `must not be set together with auth: ${KEEP_ONE}`);
  const present = isKeySet || Object.keys(headers).some(mayHoldSecret);
  return { apiKey, issuer: command ?? login, headers, present };
}

const KEEP_ONE = "keep one of them";

function checkKey({ key, text, file }: Secret, inspection: Inspection): string {
  if (file === undefined) inspection.markSecret(key, text);
  if (!/^[\x21-\x7e]{1,8192}$/.test(text)) {
    inspection.problem(
      key,
      "contains a blank or another character that is not valid in a key: copy the key again",
    );
  }
  return text;
}

/** Checks the headers for a server. Names get lower case. */
export function readHeaders(
  given: Readonly<Record<string, string>>,
  at: string,
  inspection: Inspection,
): Readonly<Record<string, string>> {
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(given)) {
    const key = joinKey(at, name);
    const lower = name.toLowerCase();
    const problem = headerProblem(lower, value);
    if (problem !== undefined) inspection.problem(key, problem);
    else if (headers.has(lower)) inspection.problem(key, "is set twice: header names ignore case");
    if (mayHoldSecret(lower) && value !== "") inspection.markSecret(key, value);
    headers.set(lower, value);
  }
  if (headers.size > HEADERS_MAX)
    inspection.problem(at, `must have at most ${HEADERS_MAX} entries`);
  return Object.fromEntries(headers);
}

function headerProblem(name: string, value: string): string | undefined {
  // A token (https://www.rfc-editor.org/rfc/rfc9110#name-tokens) that begins with a letter or digit, unlike __proto__.
  if (!/^[a-z0-9][a-z0-9!#$%&'*+.^_`|~-]{0,127}$/.test(name)) return "is not a valid header name";
  if (RESERVED_HEADERS.has(name)) return "is a header that the gateway sets: remove it";
  if (!/^[\t\x20-\x7e]*$/.test(value)) {
    return "must have a value of printable ASCII on one line";
  }
  return undefined;
}

function mayHoldSecret(name: string): boolean {
  return /auth|key|token|secret|cookie|password/.test(name);
}
