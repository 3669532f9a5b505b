import { isoTime } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { Actor } from "../schema/schema.ts";
import type { KeyChanges, KeyRow, KeyTable, NewKey } from "../tables/keys.ts";
import { StoreError } from "../storeError.ts";

/** What a new key does not inherit from the key that it replaces. */
export type Successor = Pick<NewKey, "publicId" | "hash" | "prefix">;

/** The old key works for another `graceMs`. */
export interface Rotation {
  readonly successor: Successor;
  readonly graceMs: number;
}

/** `key` is the new key. The old key works until `replacedUntil`, which may be now. */
export interface Rotated {
  key: KeyRow;
  replacedUntil: number;
}

/**
 * Changes settings of a key. A budget applies to its whole rotation chain, with all that the chain spent. Runs in the
 * caller's transaction. Throws StoreError, also for a revoked key.
 */
export async function changeKey(
  keys: KeyTable,
  publicId: string,
  changes: KeyChanges,
): Promise<KeyRow> {
  const key = await keys.findOrThrow(publicId);
  if (key.revokedAt !== null) throw new StoreError(`key ${revokedMessage(key)}`);
  await keys.change(key, changes);
  return await keys.findOrThrow(publicId);
}

/**
 * Replaces a key by a new one with the same settings and expiry, in the same rotation chain. The old key works for
 * another `graceMs`, but not after its own expiry. Only the newest key of a chain can be rotated, so that a chain has
 * one current key. Runs in the caller's transaction. Throws StoreError.
 */
export async function rotateKey(
  keys: KeyTable,
  actor: Actor,
  publicId: string,
  { successor, graceMs }: Rotation,
): Promise<Rotated> {
  const old = await keys.findOrThrow(publicId);
  refuseRotation(old, await keys.newestOfChain(old), actor.at);
  await keys.insert(
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
  await keys.change(old, { expiresAt: replacedUntil });
  return { key: await keys.findOrThrow(successor.publicId), replacedUntil };
}

/** For the admin log, with the names of the command line options. */
export function changesDetail(changes: KeyChanges): string {
  const { expiresAt, budget } = changes;
  const options = {
    label: changes.label,
    expires: expiresAt && isoTime(expiresAt),
    rpm: changes.requestsPerMinute,
    tpm: changes.tokensPerMinute,
    concurrent: changes.concurrentRequests,
    models: changes.models && changes.models.join(","),
    budget: budget && formatRoubles(budget),
  };
  return settingsDetail(options);
}

/** Settings for the admin log: `label web, rpm none`. An undefined value is left out. */
export function settingsDetail(
  settings: Readonly<Record<string, string | number | bigint | null | undefined>>,
): string {
  return Object.entries(settings)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name} ${value ?? "none"}`)
    .join(", ");
}

export function rotationDetail({ key, replacedUntil }: Rotated): string {
  return `to ${key.publicId}, grace until ${isoTime(replacedUntil)}`;
}

function refuseRotation(key: KeyRow, newest: KeyRow, now: number): void {
  if (newest.id !== key.id) {
    throw new StoreError(
      newest.revokedAt === null
        ? `key ${key.publicId} was rotated before, and ${newest.publicId} replaces it: tollgate keys rotate ${newest.publicId}`
        : `key ${key.publicId} was rotated before, and ${revokedMessage(newest)}`,
    );
  }
  if (key.revokedAt !== null) throw new StoreError(`key ${revokedMessage(key)}`);
  if (key.expiresAt !== null && key.expiresAt <= now) {
    throw new StoreError(
      `key ${key.publicId} is expired: tollgate keys set ${key.publicId} --expires 30d lets it live again, then rotate it`,
    );
  }
}

function revokedMessage({ publicId, account }: KeyRow): string {
  return `${publicId} is revoked for ever: tollgate keys create --account ${account} issues another`;
}
