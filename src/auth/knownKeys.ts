import type { KeySecretRow, Store } from "../store/store.ts";
import { hashKey, isWellFormedKey } from "./apiKey.ts";

/** The key that a request came with, and its account. The gateway itself changes only the time of its last use. */
export interface Caller extends Omit<KeySecretRow, "hash" | "lastUsedAt"> {
  lastUsedAt: number | null;
}

interface Entry {
  readonly key: Caller;
  /** The change counter when the key was read. */
  readonly readAt: number;
}

/**
 * The keys that were used, in memory, by the SHA-256 of the secret. A key that a command changed is read again for the
 * next request. There are at most as many as the database has.
 */
export class KnownKeys {
  readonly #store: Pick<Store, "keys" | "changes">;
  readonly #entries = new Map<string, Entry>();

  /** Takes the whole store: its parts prepare their statements when they are first used, which must not delay the start. */
  constructor(store: Pick<Store, "keys" | "changes">) {
    this.#store = store;
  }

  /** Finds a key by its secret. Reads the database for a key that is unknown or may have changed. */
  find(secret: string): Caller | undefined {
    const readAt = this.#store.changes.read();
    const id = Bun.SHA256.hash(secret, "hex");
    const entry = this.#entries.get(id);
    if (entry?.readAt === readAt) return entry.key;
    // The checksum finds a mistyped key without a search in the database.
    if (!isWellFormedKey(secret)) return undefined;
    const hash = hashKey(secret);
    const row = this.#store.keys.findByHash(hash);
    // A damaged index must not return the key of another account.
    if (!row || !crypto.timingSafeEqual(hash, row.hash)) {
      this.#entries.delete(id);
      return undefined;
    }
    const { hash: _, ...key } = row;
    this.#entries.set(id, { key, readAt });
    return key;
  }
}

/**
 * Returns the caller for a key. Returns undefined for a key that is missing, unknown, revoked or expired, or whose account
 * is disabled.
 */
export function authenticate(
  token: string | undefined,
  keys: KnownKeys,
  nowMs: number,
): Caller | undefined {
  const key = token === undefined ? undefined : keys.find(token);
  if (key === undefined || key.revokedAt !== null || key.accountDisabled) return undefined;
  return key.expiresAt !== null && key.expiresAt <= nowMs ? undefined : key;
}
