/** Roubles for one dollar, and the margin, as a reseller writes them into the config. */
export const RATE = "92.4517";
const MARGIN_PERCENT = "12.5";

export const dollarSections = {
  currency: { usd: Number(RATE) },
  pricing: { margin_percent: Number(MARGIN_PERCENT) },
};

/** A decimal text as a whole number of the last of so many places. */
export function scaled(text: string, places: number): bigint {
  const [whole = "", fraction = ""] = text.split(".");
  if (fraction.length > places) throw new Error(`${text} has more than ${places} places`);
  return BigInt(whole + fraction.padEnd(places, "0"));
}

/** Thousandths of a rouble, rounded up once. `percent`: of the dollars. */
export function roubles(dollars: string, percent: bigint): bigint {
  const exact = scaled(dollars, 6) * scaled(RATE, 4) * percent;
  const unit = 10n ** (6n + 4n + 3n - 3n);
  return (exact + unit - 1n) / unit;
}
/** Tenths of a percent. */
export const SOLD = 1000n + scaled(MARGIN_PERCENT, 1);
export const BOUGHT = 1000n;
