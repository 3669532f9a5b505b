import { issueKey } from "../auth/apiKey.ts";
import {
  createdKeyDocument,
  keyDocument,
  revokedKeyDocument,
  rotatedKeyDocument,
  type CreatedKeyDocument,
  type KeyDocument,
  type RevokedKeyDocument,
  type RotatedKeyDocument,
} from "../contract/operator/key.ts";
import { systemClock } from "../lib/clock.ts";
import { idMaker, systemRandom } from "../lib/random.ts";
import type { KeyRow } from "../store/store.ts";
import { keyChanges, type KeySettings } from "./keySettings.ts";
import type { Operator } from "./operator.ts";

// Each change throws StoreError if the store refuses it.

/** A key in both forms. */
export interface ShownKey<Document extends KeyDocument = KeyDocument> {
  readonly key: KeyRow;
  readonly document: Document;
}

/** Creates a key, and its account if that does not exist. Throws InvalidValue for a model that the config does not have. */
export async function createKey(
  operator: Operator,
  account: string,
  settings: KeySettings,
): Promise<ShownKey<CreatedKeyDocument>> {
  const changes = keyChanges(operator.config, settings);
  const { store, actor } = operator;
  const { secret, stored } = newKey();
  const { key, createdAccount } = await store.admin.createKey(actor, account, {
    ...changes,
    ...stored,
    createdAt: actor.at,
  });
  return { key, document: createdKeyDocument(key, secret, createdAccount) };
}

/** Changes the settings of a key. Throws InvalidValue for a model that the config does not have. */
export async function changeKey(
  operator: Operator,
  id: string,
  settings: KeySettings,
): Promise<ShownKey> {
  const changes = keyChanges(operator.config, settings);
  const key = await operator.store.admin.changeKey(operator.actor, id, changes);
  return { key, document: keyDocument(key) };
}

/** A grace period that is not given. */
export const GRACE_DEFAULT = "24h";

/**
 * Replaces the key `replaces` by a new one. The old key works for another `graceMs`, which ends at `replacedUntil`; it
 * stopped if that is not later than `at`.
 */
export async function rotateKey(
  { store, actor }: Operator,
  replaces: string,
  graceMs: number,
): Promise<ShownKey<RotatedKeyDocument> & { readonly replacedUntil: number; readonly at: number }> {
  const { secret, stored: successor } = newKey();
  const { key, replacedUntil } = await store.admin.rotateKey(actor, replaces, {
    successor,
    graceMs,
  });
  return {
    key,
    document: rotatedKeyDocument(key, secret, replaces),
    replacedUntil,
    at: actor.at,
  };
}

export async function revokeKey(
  { store, actor }: Operator,
  id: string,
): Promise<ShownKey<RevokedKeyDocument>> {
  const { key, applied } = await store.admin.revokeKey(actor, id);
  return { key, document: revokedKeyDocument(key, applied) };
}

interface NewKey {
  /** Shown once and never stored. */
  readonly secret: string;
  readonly stored: {
    readonly publicId: string;
    readonly hash: Uint8Array;
    readonly prefix: string;
  };
}

/** Makes a key. The caller writes it to the store. */
export function newKey(): NewKey {
  const { key: secret, hash, prefix } = issueKey(systemRandom);
  const publicId = idMaker(systemClock, systemRandom)("key");
  return { secret, stored: { publicId, hash, prefix } };
}
