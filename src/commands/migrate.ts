import type { Command } from "commander";
import { resolve } from "node:path";
import { forgetPostgresEnvironment, loadConfig } from "../config/load.ts";
import type { CopiedDatabaseDocument } from "../contract/operator/copiedDatabase.ts";
import { formatRoubles } from "../lib/money.ts";
import { copyDatabase, type CopiedDatabase, type CopyProgress } from "../store/open.ts";
import { CommandFailure, printNotice, printResult, type Result } from "./cli/print.ts";
import { globalOptions } from "./cli/session.ts";
import { fields, table, type Column } from "../lib/terminal.ts";

/** Registers `tollgate migrate`. */
export function addMigrate(program: Command): void {
  program
    .command("migrate")
    .summary("copy a SQLite database into an empty PostgreSQL database")
    .description(
      "Copies the records of a SQLite file into the empty PostgreSQL database of the config, in one transaction, and audits both. The file stays as it is. No gateway may run.",
    )
    .requiredOption("--from <file>", "the SQLite database")
    .action(async (options: { from: string }, command: Command) => {
      const { config: path, json } = globalOptions(command);
      const { config } = loadConfig({ path, secrets: "unread" });
      const { database } = config;
      if (database.engine === "sqlite")
        throw new CommandFailure(
          `the config has a SQLite database: name the PostgreSQL database as the url of [database] in ${config.file}`,
        );
      forgetPostgresEnvironment();
      const from = resolve(options.from);
      const copied = await copyDatabase(
        from,
        { ...database, application: "migrate" },
        progressNotice(),
      );
      printResult(resultOf(from, database.shownUrl, copied), json);
    });
}

/** A smaller copy takes a second or two. */
const LARGE_ROWS = 20_000;

/** Tells each tenth of a large copy, and when an audit begins. */
function progressNotice(): (progress: CopyProgress) => void {
  let told = 0;
  return ({ what, copied, total }) => {
    if (total < LARGE_ROWS) return;
    if (what !== "copy") return printNotice(`${what}: ${total} rows`);
    const tenth = Math.floor((copied / total) * 10);
    if (tenth <= told) return;
    told = tenth;
    printNotice(`copying: ${copied} of ${total} rows`);
  };
}

function resultOf(from: string, to: string, copied: CopiedDatabase): Result {
  const { tables, interrupted, released, balance } = copied;
  const rowsOf = (name: string): number => tables.find((one) => one.name === name)?.rows ?? 0;
  const document: CopiedDatabaseDocument = {
    ok: true,
    from,
    to,
    accounts: rowsOf("accounts"),
    keys: rowsOf("keys"),
    ledger_rows: rowsOf("ledger"),
    requests: rowsOf("requests"),
    interrupted,
    balance_rub: formatRoubles(balance),
  };
  const columns: readonly Column[] = [
    { head: "table" },
    { head: "rows", kind: "number" },
    { head: "money, RUB", kind: "money" },
  ];
  return {
    document,
    text: () =>
      [
        fields([
          ["from", from],
          ["to", to],
        ]),
        table(
          columns,
          tables.map(({ name, rows, amount }) => [
            name,
            String(rows),
            amount === undefined ? "" : formatRoubles(amount),
          ]),
        ),
        fields([
          ["all balances, RUB", document.balance_rub],
          ["interrupted requests", String(interrupted)],
          ["released reserves, RUB", formatRoubles(released)],
        ]),
        "Each row was compared, and both audits are clean: start the gateways, and do not start one on the file again.",
      ].join("\n\n"),
  };
}
