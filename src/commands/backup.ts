import type { Command } from "commander";
import { resolve } from "node:path";
import { loadConfig } from "../config/load.ts";
import {
  backUp,
  type Backup,
  isDamage,
  recordBackup,
  restore,
  type Restored,
} from "../store/open.ts";
import type { Config, SqliteDatabase } from "../config/schema.ts";
import { systemClock } from "../lib/clock.ts";
import { recordOutcome } from "./audit.ts";
import { CommandFailure, printResult, type Result } from "./cli/print.ts";
import { globalOptions, requireDatabase, listenForStop, currentActor } from "./cli/session.ts";
import { commandToPaste, shellWord, visible } from "../lib/terminal.ts";

/** Registers `tollgate backup`. */
export function addBackup(program: Command): void {
  program
    .command("backup")
    .description("write a verified copy of the database; works while the gateway runs")
    .argument("<file>", "a new file; an existing one is never overwritten")
    .action(async (given: string, _: unknown, command: Command) => {
      const { config: configPath, json } = globalOptions(command);
      const { config } = loadConfig({ path: configPath, secrets: "unread" });
      const file = resolve(given);
      const database = requireFile(config, "backup", file);
      requireDatabase(database.path);
      const stopped = listenForStop().first;
      const backup = await recordingAudit(database, () =>
        backUp({ database: database.path, file, stopped }),
      );
      printResult(backupResult(file, backup, configPath), json);
    });
}

/** Makes a backup, and records whether the database or its copy is damaged: the gateway tells a person. */
async function recordingAudit(
  database: SqliteDatabase,
  work: () => Promise<Backup>,
): Promise<Backup> {
  const record = (hasProblems: boolean) =>
    recordOutcome(() => recordBackup(database, hasProblems, systemClock.epochMs()));
  try {
    const backup = await work();
    await record(false);
    return backup;
  } catch (error) {
    if (isDamage(error)) await record(true);
    throw error;
  }
}

/** The SQLite file. Throws CommandFailure with PostgreSQL's own command if a server has the database. */
function requireFile(
  { database }: Config,
  command: "backup" | "restore",
  file: string,
): SqliteDatabase {
  if (database.engine === "sqlite") return database;
  const url = new URL(database.url);
  // The program asks for it, or finds it in ~/.pgpass.
  url.password = "";
  const place = shellWord(url.href);
  const own =
    command === "backup"
      ? `pg_dump --format=custom --file=${shellWord(file)} ${place}`
      : `pg_restore --exit-on-error --dbname=${place} ${shellWord(file)}`;
  const advice = command === "backup" ? "" : " into an empty database, while no gateway runs";
  throw new CommandFailure(
    `\`tollgate ${command}\` is for SQLite files: use PostgreSQL's own program${advice}: ${own}; docs/run/fleet.md has the steps`,
  );
}

function backupResult(file: string, backup: Backup, configPath: string | undefined): Result {
  const { bytes, accounts, requests } = backup;
  return {
    document: { file, bytes, accounts, requests, ok: true },
    text: () =>
      [
        `wrote ${file} (accounts: ${accounts}, requests: ${requests}, bytes: ${bytes}); its ledger is consistent`,
        `to restore it: stop the gateway, then run ${commandToPaste(configPath, "restore", file)}`,
      ]
        .map(visible)
        .join("\n"),
  };
}

/** Registers `tollgate restore`. */
export function addRestore(program: Command): void {
  program
    .command("restore")
    .description("replace the database with a backup and keep the old one; stop the gateway first")
    .argument("<file>", "a file from `tollgate backup`")
    .action(async (given: string, _: unknown, command: Command) => {
      const { config: configPath, json } = globalOptions(command);
      const { config } = loadConfig({ path: configPath, secrets: "unread" });
      const file = resolve(given);
      const { path } = requireFile(config, "restore", file);
      const stopped = listenForStop().first;
      const done = await restore({ database: path, file, actor: currentActor(command), stopped });
      printResult(restoreResult({ file, database: path }, done, configPath), json);
    });
}

function restoreResult(
  names: { file: string; database: string },
  done: Restored,
  configPath: string | undefined,
): Result {
  const { kept, newer, reactivated, accounts, requests } = done;
  return {
    document: {
      ...names,
      kept: kept ?? null,
      accounts,
      requests,
      newer_requests: newer?.requests ?? null,
      newer_ledger_rows: newer?.ledgerRows ?? null,
      newer_admin_log_rows: newer?.adminLogRows ?? null,
      revived_keys: reactivated?.keys ?? null,
      enabled_accounts: reactivated?.accounts ?? null,
      ok: true,
    },
    text: () =>
      [
        `restored ${names.database} from ${names.file} (accounts: ${accounts}, requests: ${requests})`,
        ...(kept === undefined ? [] : keptLines(kept, newer)),
        ...(reactivated === undefined ? [] : reactivatedLines(reactivated, configPath)),
        `next: ${commandToPaste(configPath, "serve")}`,
      ]
        .map(visible)
        .join("\n"),
  };
}

/** Tells the operator that the restored ledger does not contain what was recorded after the backup. */
function keptLines(kept: string, newer: Restored["newer"]): readonly string[] {
  const only = newer
    ? `that file also has what is newer than the backup: requests: ${newer.requests}, ledger rows: ${newer.ledgerRows}, changes by commands: ${newer.adminLogRows}`
    : "only that file has what was recorded after the backup";
  return [`the previous database is kept as ${kept}`, only];
}

/** Names each key and account that was revoked or disabled after the backup, with the command that does it again. */
function reactivatedLines(
  { keys, accounts }: NonNullable<Restored["reactivated"]>,
  configPath: string | undefined,
): readonly string[] {
  const again = "works again since this restore:";
  return [
    ...keys.map(
      (id) =>
        `${again} key ${id}, to revoke it: ${commandToPaste(configPath, "keys", "revoke", id)}`,
    ),
    ...accounts.map(
      (name) =>
        `${again} account ${name}, to disable it: ${commandToPaste(configPath, "accounts", "disable", name)}`,
    ),
  ];
}
