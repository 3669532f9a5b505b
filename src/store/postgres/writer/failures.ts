import { InsufficientFunds } from "../../writer/effects.ts";
import type { Refused, WriteFailure } from "../../writer/outcome.ts";

/** Another replica has ended the lease that a batch was made for. Nothing of the batch is committed. */
export class Fenced extends Error {
  override readonly name = "Fenced";
}

/** The code of an error that the server reported (https://www.postgresql.org/docs/current/errcodes-appendix.html). */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("errno" in error)) return undefined;
  return typeof error.errno === "string" ? error.errno : undefined;
}

/** How often a transaction is tried while others are in the way. */
export const CONFLICT_TRIES = 5;

/** Another transaction was in the way, and the same one may succeed at once. */
export function isConflict(error: unknown): boolean {
  const state = sqlState(error);
  return state === "40001" || state === "40P01";
}

/** A lock was not free within `lock_timeout`. */
export function isLockTimeout(error: unknown): boolean {
  return sqlState(error) === "55P03";
}

/** Why a transaction failed that was rolled back. */
function failureOf(error: unknown): WriteFailure {
  if (error instanceof Fenced) return "fenced";
  if (error instanceof InsufficientFunds) return "insufficient";
  if (isLockTimeout(error)) return "locked";
  const state = sqlState(error) ?? "";
  if (state === "53100") return "full";
  // A conflict, a statement that took too long, or a server without resources.
  if (/^(?:40|55|57|53|58|XX)/.test(state)) return "busy";
  // The server has become a standby.
  if (state === "25006") return "unreachable";
  return "refused";
}

export function refusedBy(error: unknown): Refused {
  return { ok: false, failure: failureOf(error), message: messageOf(error) };
}

/** Without the values of the statement: PostgreSQL has them only in the detail. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
