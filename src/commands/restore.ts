import type { Command } from "commander";
import { resolve } from "node:path";
import { loadConfig } from "../config/load.ts";
import { restore, type Restored } from "../store/store.ts";
import { printResult, visible, type Result } from "./print.ts";
import { commandToPaste } from "./shellWord.ts";
import { currentActor, globalOptions } from "./session.ts";
import { listenForStop } from "./stopSignals.ts";

/** Registers `tollgate restore`. */
export function addRestore(program: Command): void {
  program
    .command("restore")
    .description(
      "put a backup in the place of the database, which is kept; not while a gateway runs",
    )
    .argument("<file>", "what `tollgate backup` wrote")
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
  const { kept, newer, revived, accounts, requests } = done;
  return {
    document: {
      ...names,
      kept: kept ?? null,
      accounts,
      requests,
      newer_requests: newer?.requests ?? null,
      newer_ledger_rows: newer?.ledgerRows ?? null,
      newer_admin_log_rows: newer?.adminLogRows ?? null,
      revived_keys: revived?.keys ?? null,
      enabled_accounts: revived?.accounts ?? null,
      ok: true,
    },
    text: () =>
      [
        `restored ${names.database} from ${names.file} (accounts: ${accounts}, requests: ${requests})`,
        ...(kept === undefined ? [] : keptLines(kept, newer)),
        ...(revived === undefined ? [] : revivedLines(revived, configPath)),
        `next: ${commandToPaste(configPath, "serve")}`,
      ]
        .map(visible)
        .join("\n"),
  };
}

/** Money that was moved after the backup is not in the books any more: that must not stay unsaid. */
function keptLines(kept: string, newer: Restored["newer"]): readonly string[] {
  const only = newer
    ? `newer than the backup, and in that file only: requests: ${newer.requests}, rows of the ledger: ${newer.ledgerRows}, changes by commands: ${newer.adminLogRows}`
    : "what was booked after the backup is in that file only";
  return [`what was there before is kept as ${kept}`, only];
}

/** Whoever was shut out after the backup is in again: each of them is named, with the command that shuts it out. */
function revivedLines(
  { keys, accounts }: NonNullable<Restored["revived"]>,
  configPath: string | undefined,
): readonly string[] {
  const paste = (...words: readonly string[]) => commandToPaste(configPath, ...words);
  return [
    ...keys.map(
      (id) =>
        `works again, and did not before: key ${id}, to end it: ${paste("keys", "revoke", id)}`,
    ),
    ...accounts.map(
      (name) =>
        `works again, and did not before: account ${name}, to end that: ${paste("accounts", "disable", name)}`,
    ),
  ];
}
