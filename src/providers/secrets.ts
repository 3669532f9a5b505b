import type { ProviderConfig } from "../config/schema.ts";

/** What must not appear in a provider's messages. */
export interface Secrets {
  /** The provider's key and the values of its configured headers. */
  readonly values: readonly string[];
  /** Host names of the provider's URL and proxy. */
  readonly hosts: readonly string[];
}

export function secretsOf(provider: ProviderConfig): Secrets {
  const key = provider.apiKey === undefined ? [] : [provider.apiKey];
  const urls = [provider.baseUrl, ...(provider.proxyUrl === undefined ? [] : [provider.proxyUrl])];
  return {
    values: [...key, ...Object.values(provider.headers)],
    hosts: urls.flatMap((url) => [new URL(url).host, new URL(url).hostname]),
  };
}

const MESSAGE_CHARS_MAX = 512;
const MASK = "***";
/** Shorter values would mask ordinary words. */
const SECRET_CHARS_MIN = 4;

/**
 * Random keys and ids have a digit or a capital after their prefix, or a masked middle. Names that a caller chose
 * usually have small letters only, and stay readable.
 */
const PATTERNS = [
  /\b(?:https?|socks5h?):\/\/[^\s"'<>)\]]+/gi,
  // API keys, also with a masked middle.
  /\b(sk|pk|rk|gsk|xai|key|AIza)[-_](?=[\w*.-]*([A-Z\d*]|\.\.\w))[\w*.-]{6,}/g,
  /\bAIza[\w-]{20,}/g,
  /\b(org|proj|acct|user|team|project)[-_](?=[\w-]*[A-Z\d])[\w-]{6,}/g,
  /\bBearer\s+\S+/gi,
  /\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b/g,
];
/** A possible IPv6 address, with or without a port. */
const COLON_GROUPS = /(?<!\w)\[?([\da-f]{0,4}(?::[\da-f]{0,4}){2,7})\]?(?::\d+)?(?![\w:])/gi;
const IPV6_GROUPS = 8;

/**
 * A provider's message with its key, organization and address masked as `***`, without control characters, at most
 * 512 characters.
 */
export function redactSecrets(text: string, secrets: Secrets): string {
  let redacted = text;
  for (const secret of secrets.values) {
    if (secret.length >= SECRET_CHARS_MIN) redacted = redacted.replaceAll(secret, MASK);
  }
  for (const host of secrets.hosts) {
    if (host.length >= SECRET_CHARS_MIN) redacted = redacted.replaceAll(inAnyCase(host), MASK);
  }
  // Cut after the masking: half of a secret would not be recognized.
  redacted = redacted.slice(0, MESSAGE_CHARS_MAX * 4);
  for (const pattern of PATTERNS) redacted = redacted.replace(pattern, MASK);
  return redacted
    .replace(COLON_GROUPS, (text, groups: string) => (isAddress(groups) ? MASK : text))
    .replace(/\p{Cc}+/gu, " ")
    .trim()
    .slice(0, MESSAGE_CHARS_MAX);
}

/** True for an IPv6 address, false for a time or a ratio: it has `::`, eight groups, or a hexadecimal letter. */
function isAddress(groups: string): boolean {
  if (groups.includes("::") && /\d/.test(groups)) return true;
  const count = groups.split(":").length;
  return count === IPV6_GROUPS || (count > 3 && /[a-f]/i.test(groups));
}

function inAnyCase(host: string): RegExp {
  return new RegExp(RegExp.escape(host), "gi");
}
