import { Database } from "bun:sqlite";
import { expect } from "bun:test";
import { openStore } from "../../../src/store/open.ts";
import type { CliFolder } from "./cli.ts";

/** What `tollgate doctor --json` found. */
export interface Examination {
  readonly status: number;
  /** The names of the checks that failed, in their order. */
  readonly failed: readonly string[];
  /** By the name of the check. */
  readonly messages: Readonly<Record<string, string>>;
  /** Both outputs as they were. */
  readonly output: string;
}

interface Document {
  readonly ok: boolean;
  readonly checks: readonly { name: string; ok: boolean; message: string }[];
}

/** The checks, in the order of the document. */
export const checkNames = [
  "config",
  "environment",
  "clock",
  "disk",
  "limits",
  "permissions",
  "database",
  "providers",
];

/** One thing that is spoilt, and what is found. */
export interface SpoiledCase {
  readonly what: string;
  readonly spoil: () => Promise<void> | void;
  /** The checks that then fail. */
  readonly failed: readonly string[];
  /** A part of what the last of them says. */
  readonly message: () => string;
}

/** Adds a credit with this time. */
export async function credit(cli: CliFolder, atMs: number): Promise<void> {
  const store = openStore({ path: cli.database, durability: "process", serving: false });
  const actor = { name: "tester", command: "test", at: atMs };
  if (!(await store.accounts.find("alice"))) await store.admin.createAccount(actor, "alice", 0n);
  await store.admin.changeBalance(actor, {
    account: "alice",
    kind: "credit",
    amount: 5n,
    ref: null,
    note: null,
  });
  store.closeNow();
  // The statements of this process may outlive their store, and with them its write-ahead log.
  change(cli, "PRAGMA wal_checkpoint(TRUNCATE)");
}

/** Runs a statement on the database, without the store. */
export function change(cli: CliFolder, statement: string): void {
  const sqlite = new Database(cli.database);
  sqlite.run(statement);
  sqlite.close();
}

/** Runs the doctor; fails where its status, its document and its line on stderr do not say the same. */
export async function examine(cli: CliFolder): Promise<Examination> {
  const { status, stdout, stderr } = await cli.run("doctor", "--json");
  const { ok, checks } = JSON.parse(stdout) as Document;
  const failed = checks.filter((check) => !check.ok).map(({ name }) => name);
  expect(checks.map((check) => Object.keys(check))).toEqual(
    checkNames.map(() => ["name", "ok", "message"]),
  );
  expect(checks.map(({ name }) => name)).toEqual(checkNames);
  const summary = `error: ${failed.length} of ${checkNames.length} checks failed: see above`;
  expect({ status, ok, stderr }).toEqual(
    failed.length === 0
      ? { status: 0, ok: true, stderr: "" }
      : { status: 1, ok: false, stderr: summary },
  );
  const messages = Object.fromEntries(checks.map(({ name, message }) => [name, message]));
  return { status, failed, messages, output: stdout + stderr };
}
