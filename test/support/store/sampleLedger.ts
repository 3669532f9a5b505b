import { Database } from "bun:sqlite";
import { afterAll, beforeAll, beforeEach } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type StoreFolder,
  actor,
  databaseOf,
  ended,
  fund,
  openCopy,
  unbilled,
  writeDatabase,
} from "./storeFolder.ts";
import { hashKey } from "../../../src/auth/apiKey.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";

/**
 * A ledger in which everything happened once. bob has a credit only. alice has requests that were done,
 * cancelled and refunded in part on 2026-01-01, and one with a single attempt by `key_next`, in which a
 * rotation continues her first key. Three of 2025-12-30 are folded: one done, one done and refunded, one failed.
 */
export async function openSampleLedger(): Promise<StoreFolder> {
  return await openCopy(await sampleLedger());
}

let made: Promise<Uint8Array> | undefined;

/** The file of the sample ledger. */
function sampleLedger(): Promise<Uint8Array> {
  return (made ??= databaseOf(fillSampleLedger));
}

export async function fillSampleLedger(storeFolder: StoreFolder): Promise<void> {
  const { store, writer } = storeFolder;
  const alice = await fund(store, "alice", 1_000_000n);
  await fund(store, "bob", 500_000n);
  const old = { at: actor.at - 2 * DAY_MS };
  const run = (id: string, changes: Parameters<typeof ended>[2] = {}): Promise<void> =>
    storeFolder.record(ended(id, alice, changes));
  const refund = async (request: string, amount: bigint | null): Promise<void> => {
    await store.admin.refund(actor, { request, amount, ref: null, note: null });
  };
  await run("req_old", old);
  await run("req_old_refunded", old);
  await run("req_old_failed", { ...old, ...unbilled });
  await refund("req_old_refunded", null);
  await run("req_done");
  await run("req_cancelled", { status: "cancelled" });
  await run("req_part");
  await refund("req_part", 295n);
  const keyId = await rotate(storeFolder, "key_alice", "key_next");
  const attempts = [{ provider: "local", outcome: "ok", status: 200, durationMs: 357 }];
  await run("req_next", { keyId, attempts });
  const { folded } = await writer.write({ kind: "fold", before: actor.at - DAY_MS });
  if (folded !== 3) throw new Error(`${folded} requests were folded, 3 were to be`);
}

/** Rotates a key; returns the row id of the new one. */
export async function rotate(
  { store }: StoreFolder,
  from: string,
  to: string,
  graceMs = DAY_MS,
): Promise<number> {
  const successor = { publicId: to, hash: hashKey(to), prefix: "sk-tg-000000" };
  return (await store.admin.rotateKey(actor, from, { successor, graceMs })).key.id;
}

/** Does what triggers and constraints forbid, as a person with access to the file could, and restores the triggers. */
export function tamper(
  { path }: Pick<StoreFolder, "path">,
  ...statements: readonly string[]
): void {
  const sqlite = new Database(path);
  sqlite.run("PRAGMA foreign_keys = OFF");
  sqlite.run("PRAGMA ignore_check_constraints = ON");
  const triggers = sqlite
    .query<{ name: string; sql: string }, []>(
      "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'",
    )
    .all();
  for (const { name } of triggers) sqlite.run(`DROP TRIGGER ${name}`);
  for (const statement of statements) sqlite.run(statement);
  for (const { sql } of triggers) sqlite.run(sql);
  sqlite.close();
}

/** A new copy of the sample ledger for each test, without open connections. */
export function copySampleLedgerBefore(): { readonly path: string } {
  let folder: string;
  let count = 0;
  const path = (): string => join(folder, `copy-${count}.db`);
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-ledger-"));
  });
  beforeEach(async () => {
    count += 1;
    writeDatabase(path(), await sampleLedger());
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return {
    get path() {
      return path();
    },
  };
}
