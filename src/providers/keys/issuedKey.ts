import { fieldsOf, type JsonFields } from "../../lib/json.ts";
import { parseUntrusted } from "../../lib/untrustedJson.ts";

/** A key that expires. */
export interface IssuedKey {
  readonly key: string;
  /** For how long it is valid from now on. Undefined: nobody says. */
  readonly lifetimeMs: number | undefined;
}

/** No key was issued. The message says why, without anything that the issuer has said: that may be a secret. */
export class KeyError extends Error {
  override readonly name = "KeyError";
}

/** The members that have a key, of gcloud, az, yc, kubectl's credential helpers and the answers of OAuth. */
const KEYS = ["access_token", "accessToken", "iam_token", "token", "tok"];
/** The members that say when it expires. Seconds or milliseconds since 1970, or a text with a date. */
const ENDS = ["expires_at", "expires_on", "expirationTimestamp", "token_expiry", "exp"];
/** Later than any number of seconds since 1970. */
const MILLISECONDS_MIN = 1e11;

/** The key in what an issuer wrote: the key alone, or a JSON object with the key and its end. Throws KeyError. */
export function readIssuedKey(text: string, nowMs: number): IssuedKey {
  const trimmed = text.trim();
  const fields = trimmed.startsWith("{") ? objectWithKey(trimmed) : undefined;
  const key = fields === undefined ? trimmed : KEYS.map((name) => fields[name]).find(isText);
  if (key === undefined || !/^[\x21-\x7e]{1,16384}$/.test(key))
    throw new KeyError("what it wrote is no key");
  const lifetimeMs = fields && lifetimeOf(fields, nowMs);
  if (lifetimeMs !== undefined && lifetimeMs <= 0)
    throw new KeyError("the key that it wrote has expired: check the clock of this machine");
  return { key, lifetimeMs };
}

/** kubectl's helpers write the key into `status`, and gcloud's into `credential`. */
function objectWithKey(text: string): JsonFields {
  let whole: JsonFields;
  try {
    whole = fieldsOf(parseUntrusted(text));
  } catch {
    throw new KeyError("what it wrote is no key and no JSON");
  }
  const places = [whole, fieldsOf(whole["status"]), fieldsOf(whole["credential"])];
  return places.find((fields) => KEYS.some((name) => isText(fields[name]))) ?? {};
}

function lifetimeOf(fields: JsonFields, nowMs: number): number | undefined {
  const { expires_in: seconds } = fields;
  if (typeof seconds === "number" && Number.isFinite(seconds)) return seconds * 1000;
  for (const name of ENDS) {
    const endMs = timeOf(fields[name]);
    if (endMs !== undefined) return endMs - nowMs;
  }
  return undefined;
}

function timeOf(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof number === "number" && Number.isFinite(number))
    return number >= MILLISECONDS_MIN ? number : number * 1000;
  const parsed = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isFinite(parsed) ? parsed : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
