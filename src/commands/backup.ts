import type { Command } from "commander";
import { resolve } from "node:path";
import { loadConfig } from "../config/load.ts";
import { backUp, type Backup, restore, type Restored } from "../store/store.ts";
import { printResult, visible, type Result } from "./cli/print.ts";
import { commandToPaste, shellWord } from "./cli/format.ts";
import { globalOptions, requireDatabase, listenForStop, currentActor } from "./cli/session.ts";

/** Registers `tollgate backup`. */
export function addBackup(program: Command): void {
  program
    .command("backup")
    .description("write a verified copy of the database; works while the gateway runs")
    .argument("<file>", "a new file; an existing one is never overwritten")
    .action(async (given: string, _: unknown, command: Command) => {
      const { config: configPath, json } = globalOptions(command);
      const { path } = loadConfig({ path: configPath, secrets: "unread" }).config.database;
      requireDatabase(path);
      const file = resolve(given);
      const stopped = listenForStop().first;
      const backup = await backUp({ database: path, file, stopped });
      printResult(written(file, backup, configPath), json);
    });
}

function written(file: string, backup: Backup, configPath: string | undefined): Result {
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

/** More keys, or accounts, that work again are named in one line for all. */
const PASTED_SINGLY_MAX = 10;

/** Registers `tollgate restore`. */
export function addRestore(program: Command): void {
  program
    .command("restore")
    .description("replace the database with a backup and keep the old one; stop the gateway first")
    .argument("<file>", "a file from `tollgate backup`")
    .action(async (given: string, _: unknown, command: Command) => {
      const { config: configPath, json } = globalOptions(command);
      const { path } = loadConfig({ path: configPath, secrets: "unread" }).config.database;
      const file = resolve(given);
      const stopped = listenForStop().first;
      const done = await restore({ database: path, file, actor: currentActor(), stopped });
      printResult(restored({ file, database: path }, done, configPath), json);
    });
}

function restored(
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

/** Money that was moved after the backup is not in the books any more: that must not stay unsaid. */
function keptLines(kept: string, newer: Restored["newer"]): readonly string[] {
  const only = newer
    ? `that file also has what is newer than the backup: requests: ${newer.requests}, ledger rows: ${newer.ledgerRows}, changes by commands: ${newer.adminLogRows}`
    : "only that file has what was recorded after the backup";
  return [`the previous database is kept as ${kept}`, only];
}

/** Whoever was shut out after the backup is in again: each of them is named, with the command that shuts it out. */
function reactivatedLines(
  { keys, accounts }: NonNullable<Restored["reactivated"]>,
  configPath: string | undefined,
): readonly string[] {
  const lines = (
    noun: string,
    names: readonly string[],
    { end, command }: { end: string; command: readonly string[] },
  ): readonly string[] => {
    const again = "works again since this restore:";
    if (names.length > PASTED_SINGLY_MAX) {
      const each = `${commandToPaste(configPath, ...command)} "$name"`;
      return [
        `${again} ${names.length} ${noun}s, to undo that: for name in ${names.map(shellWord).join(" ")}; do ${each}; done`,
      ];
    }
    return names.map(
      (name) => `${again} ${noun} ${name}, ${end}: ${commandToPaste(configPath, ...command, name)}`,
    );
  };
  return [
    ...lines("key", keys, { end: "to revoke it", command: ["keys", "revoke"] }),
    ...lines("account", accounts, { end: "to disable it", command: ["accounts", "disable"] }),
  ];
}
