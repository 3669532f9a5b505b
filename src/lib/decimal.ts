/** An exact number that is not negative: `digits` / 10^`places`. */
export interface Decimal {
  readonly digits: bigint;
  /** 0 or more. */
  readonly places: number;
}

export const zero: Decimal = { digits: 0n, places: 0 };

/** The lengths are limited because a short text such as 1e999999999 would need much memory. */
const DECIMAL_TEXT = /^(\d{1,40})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,2}))?$/;

/** Reads `92.5`, `1.25e-06` or `0`; undefined for anything else, such as a negative number. */
export function parseDecimal(text: string): Decimal | undefined {
  const [matched, whole = "", fraction = "", exponent = "0"] = DECIMAL_TEXT.exec(text) ?? [];
  if (matched === undefined) return undefined;
  const places = fraction.length - Number(exponent);
  const digits = BigInt(whole + fraction);
  return places < 0 ? { digits: digits * powerOfTen(-places), places: 0 } : { digits, places };
}

export function multiply(one: Decimal, other: Decimal): Decimal {
  return { digits: one.digits * other.digits, places: one.places + other.places };
}

/** The value times 10^`power`. */
export function shift({ digits, places }: Decimal, power: number): Decimal {
  return places >= power
    ? { digits, places: places - power }
    : { digits: digits * powerOfTen(power - places), places: 0 };
}

const RATIO_PLACES = 20;

/** `value` * `numerator` / `denominator`, rounded up after 20 places or more. */
export function ratioUp(value: Decimal, numerator: Decimal, denominator: Decimal): Decimal {
  const { digits, places } = multiply(value, numerator);
  const scaled = digits * powerOfTen(denominator.places + RATIO_PLACES);
  const divisor = denominator.digits;
  return { digits: (scaled + divisor - 1n) / divisor, places: places + RATIO_PLACES };
}

/** The smallest number with so many significant digits that is not below the value. */
export function roundUpDigits({ digits, places }: Decimal, most: number): Decimal {
  const surplus = Math.min(digits.toString().length - most, places);
  if (surplus <= 0) return { digits, places };
  const divisor = powerOfTen(surplus);
  return { digits: (digits + divisor - 1n) / divisor, places: places - surplus };
}

/** Negative, 0 or positive, as `one` is below `other`, equal or above. */
export function compare(one: Decimal, other: Decimal): number {
  const difference = one.digits * powerOfTen(other.places) - other.digits * powerOfTen(one.places);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** 1 + `percent` / 100. */
export function plusPercent({ digits, places }: Decimal): Decimal {
  return { digits: powerOfTen(places + 2) + digits, places: places + 2 };
}

export function highest(one: Decimal, other: Decimal): Decimal {
  return compare(one, other) < 0 ? other : one;
}

/** The smallest whole number that is not below `value` * 10^`power`. */
export function roundUp({ digits, places }: Decimal, power: number): bigint {
  const divisor = powerOfTen(places);
  return (digits * powerOfTen(power) + divisor - 1n) / divisor;
}

/** As a plain decimal text without trailing zeros, such as `92.5`. */
export function formatDecimal({ digits, places }: Decimal): string {
  const text = digits.toString().padStart(places + 1, "0");
  const whole = text.slice(0, text.length - places);
  const fraction = text.slice(text.length - places).replace(/0+$/, "");
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

function powerOfTen(power: number): bigint {
  return 10n ** BigInt(power);
}
