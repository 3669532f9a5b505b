import { Option, type Command } from "commander";
import { systemClock } from "../lib/clock.ts";
import { usageForm } from "../contract/usageForm.ts";
import { formatRoubles } from "../lib/money.ts";
import { usageGroupings, type UsageGrouping, type UsageRow } from "../store/store.ts";
import { pastTime } from "./arguments.ts";
import { csv } from "./csv.ts";
import { CommandFailure } from "./failure.ts";
import { printResult, printText, type Result } from "./print.ts";
import { table } from "./table.ts";
import { findAccount, globalOptions, runSession, type Session } from "./session.ts";

interface UsageOptions {
  readonly by: UsageGrouping;
  readonly account?: string;
  readonly since?: number;
  readonly until?: number;
  readonly csv?: true;
}

/** Registers `tollgate usage`. */
export function addUsage(program: Command): void {
  const past = (text: string) => pastTime(text, systemClock.epochMs());
  program
    .command("usage")
    .description("sum up requests, tokens, roubles and errors; days and dates are UTC")
    .addOption(
      new Option("--by <group>", "what to sum up by").choices(usageGroupings).default("day"),
    )
    .option("--account <name>", "only this account's requests")
    .option("--since <time>", "7d back from now, or a date: 2026-01-31", past)
    .option("--until <time>", "up to this time, itself left out", past)
    .option("--csv", "print CSV for a spreadsheet")
    .action((options: UsageOptions, command: Command) => showUsage(options, command));
}

async function showUsage(options: UsageOptions, command: Command): Promise<void> {
  const { config, json } = globalOptions(command);
  const { by, since, until } = options;
  if (options.csv && json) {
    throw new CommandFailure("--csv and --json are two forms of one answer: give one of them", {
      status: 2,
    });
  }
  if (since !== undefined && until !== undefined && since >= until) {
    throw new CommandFailure("--since must be earlier than --until", { status: 2 });
  }
  const rows = await runSession(config, "existing", (session) => read(session, options));
  if (options.csv) printText(csvText(by, rows));
  else printResult(result(by, rows), json);
}

function read(session: Session, { by, account, since, until }: UsageOptions): UsageRow[] {
  if (account !== undefined) findAccount(session, account);
  return session.store.usage(by, { account, since, until });
}

function result(by: UsageGrouping, rows: readonly UsageRow[]): Result {
  return {
    document: rows.map((row) => usageDocument(by, row)),
    text: () =>
      rows.length === 0
        ? "no requests in this time: tollgate requests shows the latest"
        : usageText(by, rows),
  };
}

/** CSV has its columns in this order. */
function usageDocument(by: UsageGrouping, row: UsageRow): Record<string, string | number> {
  const { failed, refunded_rub, ...form } = usageForm(by, row);
  const operator_cost_rub = formatRoubles(row.operatorCost);
  return { ...form, operator_cost_rub, failed, refunded_rub };
}

function csvText(by: UsageGrouping, rows: readonly UsageRow[]): string {
  const head = Object.keys(usageDocument(by, total([])));
  return csv([head, ...rows.map((row) => Object.values(usageDocument(by, row)))]);
}

function usageText(by: UsageGrouping, rows: readonly UsageRow[]): string {
  const columns = [
    { head: by },
    { head: "requests", kind: "number" },
    { head: "failed", kind: "number" },
    { head: "prompt", kind: "number" },
    { head: "cached", kind: "number" },
    { head: "cache write", kind: "number" },
    { head: "completion", kind: "number" },
    { head: "cost, RUB", kind: "money" },
    { head: "refunded, RUB", kind: "money" },
    { head: "own cost, RUB", kind: "money" },
  ] as const;
  const cells = (row: UsageRow) => [
    row.group === "" ? "(none)" : row.group,
    String(row.requests),
    String(row.failed),
    String(row.promptTokens),
    String(row.cachedTokens),
    String(row.cacheWriteTokens),
    String(row.completionTokens),
    formatRoubles(row.cost),
    formatRoubles(row.refunded),
    formatRoubles(row.operatorCost),
  ];
  const lines = rows.length > 1 ? [...rows, total(rows)] : rows;
  return table(columns, lines.map(cells));
}

function total(rows: readonly UsageRow[]): UsageRow {
  const sum = (of: (row: UsageRow) => number) => rows.reduce((all, row) => all + of(row), 0);
  return {
    group: "total",
    requests: sum((row) => row.requests),
    promptTokens: sum((row) => row.promptTokens),
    cachedTokens: sum((row) => row.cachedTokens),
    cacheWriteTokens: sum((row) => row.cacheWriteTokens),
    completionTokens: sum((row) => row.completionTokens),
    cost: rows.reduce((all, row) => all + row.cost, 0n),
    operatorCost: rows.reduce((all, row) => all + row.operatorCost, 0n),
    failed: sum((row) => row.failed),
    refunded: rows.reduce((all, row) => all + row.refunded, 0n),
  };
}
