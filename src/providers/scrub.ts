import type { ProviderConfig } from "../config/schema.ts";

/** What must not be seen in a provider's words. */
export interface Secrets {
  /** The provider's key and the values of its configured headers. */
  readonly values: readonly string[];
  /** The host names of the provider's address and proxy. */
  readonly hosts: readonly string[];
}

/** Those of one provider, by its config. */
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
 * Random keys and ids have a digit or a capital behind their prefix, unless their middle is starred or dotted out.
 * Names that a caller chose begin alike, but are small letters as a rule, and must stay readable.
 */
const PATTERNS = [
  /https?:\/\/[^\s"'<>)\]]+/gi,
  // Keys of many providers, also as they print them themselves: with the middle starred out.
  /\b(sk|pk|rk|gsk|xai|key|AIza)[-_](?=[\w*.-]*([A-Z\d*]|\.\.\w))[\w*.-]{6,}/g,
  /\bAIza[\w-]{20,}/g,
  /\b(org|proj|acct|user|team|project)[-_](?=[\w-]*[A-Z\d])[\w-]{6,}/g,
  /\bBearer\s+\S+/gi,
  /\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b/g,
];
/** What may be an IPv6 address, with or without a port. */
const COLON_GROUPS = /(?<!\w)\[?([\da-f]{0,4}(?::[\da-f]{0,4}){2,7})\]?(?::\d+)?(?![\w:])/gi;
const IPV6_GROUPS = 8;

/** A provider's words for a client: the provider's key, organisation and address in it become `***`; at most 512 characters, no control characters. */
export function redactSecrets(text: string, secrets: Secrets): string {
  let shown = text;
  for (const secret of secrets.values) {
    if (secret.length >= SECRET_CHARS_MIN) shown = shown.replaceAll(secret, MASK);
  }
  for (const host of secrets.hosts) {
    if (host.length >= SECRET_CHARS_MIN) shown = shown.replaceAll(inAnyCase(host), MASK);
  }
  // Not before the secrets are masked: of one that the cut goes through, half would be left, and not be known as one.
  shown = shown.slice(0, MESSAGE_CHARS_MAX * 4);
  for (const pattern of PATTERNS) shown = shown.replace(pattern, MASK);
  return shown
    .replace(COLON_GROUPS, (text, groups: string) => (isAddress(groups) ? MASK : text))
    .replace(/\p{Cc}+/gu, " ")
    .trim()
    .slice(0, MESSAGE_CHARS_MAX);
}

/** An address, and no time of day and no ratio: it leaves groups out, has all eight, or is not all decimal. */
function isAddress(groups: string): boolean {
  if (groups.includes("::") && /\d/.test(groups)) return true;
  const count = groups.split(":").length;
  return count === IPV6_GROUPS || (count > 3 && /[a-f]/i.test(groups));
}

/** A provider may write its name in other letters than the URL that leads to it, and means the same. */
function inAnyCase(host: string): RegExp {
  return new RegExp(RegExp.escape(host), "gi");
}
