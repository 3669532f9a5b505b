import type { ChangeCounter, KeySecretRow, Store } from "../store/store.ts";
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

/** The keys of the store, and the counter of what other processes change. */
interface ReadKeys {
  readonly keys: Pick<Store["keys"], "findByHash">;
  readonly changes: Pick<ChangeCounter, "read">;
}

/** A promise only where the store is asked. */
type Found = Caller | undefined | Promise<Caller | undefined>;

/**
 * The keys that were used, in memory, by the SHA-256 of the secret. A key that a command changed is read again for the
 * next request. It holds at most as many keys as the database.
 */
export class KnownKeys {
  readonly #store: ReadKeys;
  readonly #entries = new Map<string, Entry>();

  /** Takes the whole store: its parts prepare their statements when they are first used, which must not delay the start. */
  constructor(store: ReadKeys) {
    this.#store = store;
  }

  /** Finds a key by its secret. Reads the database for a key that is unknown or may have changed. */
  find(secret: string): Found {
    const readAt = this.#store.changes.read();
    const id = Bun.SHA256.hash(secret, "hex");
    const entry = this.#entries.get(id);
    if (entry?.readAt === readAt) return entry.key;
    // The checksum finds a mistyped key without a search in the database.
    if (!isWellFormedKey(secret)) return undefined;
    const hash = hashKey(secret);
    return this.#read(id, hash, readAt);
  }

  async #read(id: string, hash: Uint8Array, readAt: number): Promise<Caller | undefined> {
    const row = await this.#store.keys.findByHash(hash);
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
 * is disabled. A promise only where the store is asked.
 */
export function authenticate(token: string | undefined, keys: KnownKeys, nowMs: number): Found {
  if (token === undefined) return undefined;
  const found = keys.find(token);
  if (found instanceof Promise) return found.then((key) => usable(key, nowMs));
  return usable(found, nowMs);
}

function usable(key: Caller | undefined, nowMs: number): Caller | undefined {
  if (key === undefined || key.revokedAt !== null || key.accountDisabled) return undefined;
  return key.expiresAt !== null && key.expiresAt <= nowMs ? undefined : key;
}
