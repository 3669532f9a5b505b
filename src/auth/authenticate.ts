import type { KeySecretRow } from "../store/store.ts";
import { hashKey, isKeyForm } from "./key.ts";

/** The caller of a request: the key it came with, and through it the account that pays. */
export type Caller = Omit<KeySecretRow, "hash">;

/** Reads a key's row by the SHA-256 of the whole key. */
export type FindKey = (hash: Uint8Array) => KeySecretRow | undefined;

/**
 * The caller whose key this is, read from the store afresh so that a revocation counts at once.
 * Undefined alike for a key that is unknown, revoked or expired, or whose account is disabled.
 */
export function authenticate(
  token: string | undefined,
  findKey: FindKey,
  nowMs: number,
): Caller | undefined {
  if (token === undefined || !isKeyForm(token)) return undefined;
  const hash = hashKey(token);
  const key = findKey(hash);
  if (!key || !crypto.timingSafeEqual(hash, key.hash)) return undefined;
  if (key.revokedAt !== null) return undefined;
  if (key.expiresAt !== null && key.expiresAt <= nowMs) return undefined;
  return key.accountDisabled ? undefined : key;
}
