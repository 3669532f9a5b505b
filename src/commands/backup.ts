import type { Command } from "commander";
import { resolve } from "node:path";
import { loadConfig } from "../config/load.ts";
import { backUp, type Backup } from "../store/store.ts";
import { printResult, visible, type Result } from "./print.ts";
import { commandToPaste } from "./shellWord.ts";
import { globalOptions, requireDatabase } from "./session.ts";
import { listenForStop } from "./stopSignals.ts";

/** Registers `tollgate backup`. */
export function addBackup(program: Command): void {
  program
    .command("backup")
    .description("write a verified copy of the database, also while the gateway runs")
    .argument("<file>", "a name that is not taken")
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
        `wrote ${file} (accounts: ${accounts}, requests: ${requests}, bytes: ${bytes}), and its books add up`,
        `to go back to it: stop the gateway, then ${commandToPaste(configPath, "restore", file)}`,
      ]
        .map(visible)
        .join("\n"),
  };
}
