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
  const number = Number(nano);
  return Number.isSafeInteger(number) ? formatSafe(number) : formatLarge(nano);
}

/** An integer up to 2^53 is exact as a number, and so are its quotient and rest. */
function formatSafe(nano: number): string {
  const digits = Math.abs(nano);
  const fraction = digits % 1e9;
  const whole = (digits - fraction) / 1e9;
  return joinDigits(nano < 0, String(whole), String(fraction));
}

function formatLarge(nano: bigint): string {
  const digits = nano < 0n ? -nano : nano;
  const whole = digits / NANO_ROUBLES_PER_ROUBLE;
  const fraction = digits % NANO_ROUBLES_PER_ROUBLE;
  return joinDigits(nano < 0n, String(whole), String(fraction));
}

function joinDigits(isNegative: boolean, whole: string, fraction: string): string {
  const sign = isNegative ? "-" : "";
  if (fraction === "0") return sign + whole;
  const decimals = fraction.padStart(FRACTION_DIGITS, "0");
  let length = FRACTION_DIGITS;
  while (decimals[length - 1] === "0") length -= 1;
  return `${sign}${whole}.${decimals.slice(0, length)}`;
}
