/** What must not be seen in a provider's words. */
export interface Secrets {
  /** The provider's key and the values of its configured headers. */
  readonly values: readonly string[];
  /** The host names of the provider's address and proxy. */
  readonly hosts: readonly string[];
}

const MESSAGE_CHARS_MAX = 512;
const MASK = "***";
/** Shorter values would mask ordinary words. */
const SECRET_CHARS_MIN = 4;

const PATTERNS = [
  /https?:\/\/[^\s"'<>)\]]+/gi,
  // Keys of many providers, also as they print them themselves: with the middle starred out.
  /\b(sk|pk|rk|gsk|xai|key|AIza)[-_][\w*.-]{6,}/g,
  /\bAIza[\w-]{20,}/g,
  /\b(org|proj|acct|user|team|project)[-_][\w-]{6,}/g,
  /\bBearer\s+\S+/gi,
  /\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b/g,
  /\[?[0-9a-f]{0,4}(:[0-9a-f]{0,4}){3,7}\]?(:\d+)?/gi,
];

/** A provider's words for a client: the provider's key, organisation and address in it become `***`; at most 512 characters, no control characters. */
export function scrub(text: string, secrets: Secrets): string {
  // A secret that the cut would leave half of is masked before the cut.
  let shown = text.slice(0, MESSAGE_CHARS_MAX * 4);
  for (const secret of [...secrets.values, ...secrets.hosts]) {
    if (secret.length >= SECRET_CHARS_MIN) shown = shown.replaceAll(secret, MASK);
  }
  for (const pattern of PATTERNS) shown = shown.replace(pattern, MASK);
  return shown
    .replace(/\p{Cc}+/gu, " ")
    .trim()
    .slice(0, MESSAGE_CHARS_MAX);
}
