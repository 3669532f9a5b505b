/**
 * Money is a bigint of nano-roubles (1e-9 rouble). Users read and type roubles. The conversion uses digits, never
 * floating point.
 */

/** The largest amount of one entry. The sum of two fits into 64 bits. */
export const NANO_ROUBLES_MAX = 4_000_000_000_000_000_000n;

export const NANO_ROUBLES_PER_ROUBLE = 1_000_000_000n;
const FRACTION_DIGITS = 9;
const ROUBLES_TEXT = /^(-?)(\d{1,10})(?:\.(\d{1,9}))?$/;

/** Reads `100`, `12.5` or `-0.000000001` as nano-roubles; undefined for anything else or beyond the maximum. */
export function parseRoubles(text: string): bigint | undefined {
  const match = ROUBLES_TEXT.exec(text);
  if (!match) return undefined;
  const [, sign, whole = "", fraction = ""] = match;
  const nano =
    BigInt(whole) * NANO_ROUBLES_PER_ROUBLE + BigInt(fraction.padEnd(FRACTION_DIGITS, "0"));
  if (nano > NANO_ROUBLES_MAX) return undefined;
  return sign === "-" ? -nano : nano;
}

/** Roubles as a plain decimal without trailing zeros: `"12.5"`, `"-3"`, `"0"`. */
export function formatRoubles(nano: bigint): string {
  const isNegative = nano < 0n;
  // One conversion of the whole number: divisions of a bigint cost more than the rest.
  const digits = (isNegative ? -nano : nano).toString().padStart(FRACTION_DIGITS + 1, "0");
  const point = digits.length - FRACTION_DIGITS;
  let end = digits.length;
  while (end > point && digits.endsWith("0", end)) end--;
  const whole = (isNegative ? "-" : "") + digits.slice(0, point);
  return end === point ? whole : `${whole}.${digits.slice(point, end)}`;
}

export function lesserOf(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

export function greaterOf(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}
