import type { Command } from "commander";
import { systemClock } from "../../lib/clock.ts";
import { csv } from "../../lib/csv.ts";
import { pastTime } from "../../administration/values.ts";
import { argument } from "../cli/arguments.ts";
import { CommandFailure, printResult, printText, type Result } from "../cli/print.ts";
import { globalOptions, runSession, type Access, type Session } from "../cli/session.ts";

/** A result that can also be printed as CSV. */
export interface Report extends Result {
  readonly csv: string;
}

/** The options of a report on a period. */
export interface SpanOptions {
  readonly since?: number;
  readonly until?: number;
}

/** Like `withSession`, for a report, which a standby may answer. With `--csv` it prints CSV. */
export async function withReport(
  command: Command,
  options: SpanOptions & { readonly csv?: true },
  work: (session: Session) => Promise<Report>,
  access: Access = "report",
): Promise<void> {
  const { json } = globalOptions(command);
  const { since, until } = options;
  if (options.csv && json) {
    throw new CommandFailure("--csv and --json cannot be combined: use one of them", {
      status: 2,
    });
  }
  if (since !== undefined && until !== undefined && since >= until) {
    throw new CommandFailure("--since must be earlier than --until", { status: 2 });
  }
  const report = await runSession(command, access, work);
  if (options.csv) printText(report.csv);
  else printResult(report, json);
}

/** Adds `--since` and `--until`. */
export function addSpan(command: Command): Command {
  const past = argument((text) => pastTime(text, systemClock.epochMs()));
  return command
    .option(
      "--since <time>",
      "start: duration back from now such as 7d, or a date: 2026-01-31",
      past,
    )
    .option("--until <time>", "end, exclusive: the same forms", past);
}

/** Adds `--csv`. */
export function addCsv(command: Command): Command {
  return command.option("--csv", "print CSV for a spreadsheet");
}

type Cell = string | number | boolean | null;

/** These columns of the documents as CSV. Null becomes an empty cell. */
export function csvOf<Name extends string>(
  columns: readonly Name[],
  documents: readonly Readonly<Record<Name, Cell>>[],
): string {
  const cell = (value: Cell) => (typeof value === "number" ? value : String(value ?? ""));
  return csv([columns, ...documents.map((one) => columns.map((name) => cell(one[name])))]);
}
