import { isoTime } from "../../lib/time.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { Actor } from "../schema/schema.ts";
import type { KeyChanges, KeyRow, KeyTable, NewKey } from "../tables/keys.ts";
import { StoreError } from "../sqlite.ts";

/** What a new key cannot take over from the one that it replaces. */
export type Successor = Pick<NewKey, "publicId" | "hash" | "prefix">;

/** `key` is the new one; the old one works until `replacedUntil`, which may be now. */
export interface Rotated {
  key: KeyRow;
  replacedUntil: number;
}

/**
 * Changes settings of a key. Keys that rotations put in each other's place are a line, which has one budget:
 * set on any of them it is that of all, and what they spent together counts against it. The caller holds the
 * transaction. Throws StoreError; also for a revoked key, since nothing would come of it.
 */
export function changeKey(keys: KeyTable, publicId: string, changes: KeyChanges): KeyRow {
  const key = keys.findOrThrow(publicId);
  if (key.revokedAt !== null) throw new StoreError(`key ${revoked(key)}`);
  keys.change(key, changes);
  return keys.findOrThrow(publicId);
}

/**
 * Continues a key in a new one with the same settings and, if it has one, the same end. Both are of one line:
 * they spend one budget, and what was spent is carried over. The old one works for `graceMs` more, but not
 * longer than it would have. Only the newest key of a line is rotated, for if two continued one, there would be
 * two where one was meant. The caller holds the transaction. Throws StoreError, which says what to do instead.
 */
export function rotateKey(
  keys: KeyTable,
  actor: Actor,
  publicId: string,
  { successor, graceMs }: { successor: Successor; graceMs: number },
): Rotated {
  const old = keys.findOrThrow(publicId);
  refuseRotation(old, keys.newestOfChain(old), actor.at);
  keys.insert(
    {
      ...successor,
      accountId: old.accountId,
      createdAt: actor.at,
      label: old.label,
      expiresAt: old.expiresAt,
      requestsPerMinute: old.requestsPerMinute,
      tokensPerMinute: old.tokensPerMinute,
      concurrentRequests: old.concurrentRequests,
      models: old.models,
      budget: old.budget,
    },
    old.firstKeyId,
  );
  const graceEnd = actor.at + graceMs;
  const replacedUntil = Math.min(old.expiresAt ?? graceEnd, graceEnd);
  keys.change(old, { expiresAt: replacedUntil });
  return { key: keys.findOrThrow(successor.publicId), replacedUntil };
}

/** What the admin log keeps of a change, in the words of the command line. */
export function changesDetail(changes: KeyChanges): string {
  const { expiresAt, budget } = changes;
  const told = {
    label: changes.label,
    expires: expiresAt && isoTime(expiresAt),
    rpm: changes.requestsPerMinute,
    tpm: changes.tokensPerMinute,
    concurrent: changes.concurrentRequests,
    models: changes.models && changes.models.join(","),
    budget: budget && formatRoubles(budget),
  };
  return Object.entries(told)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name} ${String(value ?? "none")}`)
    .join(", ");
}

/** The same of a rotation. */
export function rotationDetail({ key, replacedUntil }: Rotated): string {
  return `to ${key.publicId}, grace until ${isoTime(replacedUntil)}`;
}

function refuseRotation(key: KeyRow, newest: KeyRow, now: number): void {
  if (newest.id !== key.id) {
    throw new StoreError(
      newest.revokedAt === null
        ? `key ${key.publicId} was rotated before, and ${newest.publicId} continues it: tollgate keys rotate ${newest.publicId}`
        : `key ${key.publicId} was rotated before, and ${revoked(newest)}`,
    );
  }
  if (key.revokedAt !== null) throw new StoreError(`key ${revoked(key)}`);
  if (key.expiresAt !== null && key.expiresAt <= now) {
    throw new StoreError(
      `key ${key.publicId} is expired: tollgate keys set ${key.publicId} --expires 30d lets it live again, then rotate it`,
    );
  }
}

function revoked({ publicId, account }: KeyRow): string {
  return `${publicId} is revoked for ever: tollgate keys create --account ${account} issues another`;
}
