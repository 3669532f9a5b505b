import { NANO_ROUBLES_PER_ROUBLE } from "../lib/money.ts";

/**
 * Sums of money may leave 64 bits, which SQLite refuses: this has it sum up the whole roubles of an amount, as `name`,
 * and apart what is left of them, as `nameRest`. `joined` makes nano-roubles of both.
 */
export function summedApart(amount: string, name: string): string {
  return `sum(${amount} / ${NANO_ROUBLES_PER_ROUBLE}) AS ${name}, sum(${amount} % ${NANO_ROUBLES_PER_ROUBLE}) AS ${name}Rest`;
}

/** The sum in nano-roubles, of whole roubles and the rest. */
export function joined(whole: bigint, rest: bigint): bigint {
  return whole * NANO_ROUBLES_PER_ROUBLE + rest;
}
