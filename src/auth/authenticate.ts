import type { KeySecretRow, Store } from "../store/store.ts";
import { hashKey, isKeyForm } from "./key.ts";

/** The caller of a request: the key it came with, and through it the account that pays. */
export type Caller = Omit<KeySecretRow, "hash">;

/**
 * The caller whose key this is, read from the store afresh so that a revocation counts at once.
 * Undefined alike for a key that is unknown, revoked or expired, or whose account is disabled.
 */
export function authenticate(
  token: string | undefined,
  keys: Pick<Store["keys"], "findByHash">,
  nowMs: number,
): Caller | undefined {
  if (token === undefined || !isKeyForm(token)) return undefined;
  const hash = hashKey(token);
  const key = keys.findByHash(hash);
  // An index that is damaged must not let anybody in as somebody else.
  if (!key || !crypto.timingSafeEqual(hash, key.hash)) return undefined;
  if (key.revokedAt !== null) return undefined;
  if (key.expiresAt !== null && key.expiresAt <= nowMs) return undefined;
  return key.accountDisabled ? undefined : key;
}
