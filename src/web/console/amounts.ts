import { formatRoubles, parseRoubles } from "../../lib/money.ts";
import { language } from "../language.ts";

// Amounts are decimal texts of roubles, as the API has them.

/** An amount as it is sent: without spaces, and in Russian with a point in place of the decimal comma. */
export function amountText(typed: string): string {
  const text = typed.replaceAll(/\s/g, "");
  return language === "ru" ? text.replace(",", ".") : text;
}

/** `amount` plus `change`; undefined if one of them is no amount, or the change is negative. */
export function plus(amount: string, change: string): string | undefined {
  return added(amount, change, 1n);
}

/** `amount` minus `change`; undefined in the same cases. */
export function minus(amount: string, change: string): string | undefined {
  return added(amount, change, -1n);
}

/** `amount` times a whole number; undefined if one of them is none. */
export function times(amount: string, count: string): string | undefined {
  const nano = parseRoubles(amount);
  if (nano === undefined || !/^\d{1,6}$/.test(count)) return undefined;
  return formatRoubles(nano * BigInt(count));
}

export function sumOf(amounts: readonly string[]): string {
  return formatRoubles(amounts.reduce((sum, amount) => sum + (parseRoubles(amount) ?? 0n), 0n));
}

function added(amount: string, change: string, sign: bigint): string | undefined {
  const [nano, by] = [parseRoubles(amount), parseRoubles(change)];
  if (nano === undefined || by === undefined || by < 0n) return undefined;
  return formatRoubles(nano + sign * by);
}
