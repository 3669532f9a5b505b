import type { AmountRange } from "./cost.ts";

/** A reserve is raised to this multiple of what is held, and lowered from that multiple. */
const RESERVE_FACTOR = 2n;
const RESERVE_FACTOR_MAX = 4n;

/**
 * The reserve for holds of `needed`: `after`, what is reserved already, if that is enough and not far too much; else a
 * multiple of what is needed.
 */
export function roundedReserve(needed: bigint, after: bigint): bigint {
  return needed <= after && after <= RESERVE_FACTOR_MAX * needed ? after : RESERVE_FACTOR * needed;
}

/** The largest amount of the range that `money` pays. The caller has checked that the least fits. */
export function mostOf({ most, least, step }: AmountRange, money: bigint): bigint {
  return most <= money ? most : least + ((money - least) / step) * step;
}

export function lesserOf(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

export function greaterOf(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}
