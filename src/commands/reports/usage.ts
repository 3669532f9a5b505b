import { Option, type Command } from "commander";
import { usageDocument } from "../../contract/operator/usage.ts";
import { addUsage as sumOf, noUsage, type Usage } from "../../contract/usage.ts";
import { formatRoubles } from "../../lib/money.ts";
import { usageGroupings, type UsageGrouping, type UsageRow } from "../../store/store.ts";
import { csv } from "../../lib/csv.ts";
import { table } from "../cli/format.ts";
import { addCsv, addSpan, withReport, type Report, type SpanOptions } from "./report.ts";
import type { Session } from "../cli/session.ts";

interface UsageOptions extends SpanOptions {
  readonly by: UsageGrouping;
  readonly account?: string;
  readonly csv?: true;
}

/** Registers `tollgate usage`. */
export function addUsage(program: Command): void {
  const usage = program
    .command("usage")
    .description("sum requests, tokens, roubles and errors; days and dates are UTC")
    .addOption(
      new Option("--by <group>", "group the sums by").choices(usageGroupings).default("day"),
    )
    .option("--account <name>", "only this account");
  addCsv(addSpan(usage)).action((options: UsageOptions, command: Command) =>
    withReport(command, options, async (session) =>
      report(options.by, await read(session, options)),
    ),
  );
}

async function read(
  session: Session,
  { by, account, since, until }: UsageOptions,
): Promise<UsageRow[]> {
  if (account !== undefined) await session.store.accounts.findOrThrow(account);
  return await session.store.usage(by, { account, since, until });
}

function report(by: UsageGrouping, rows: readonly UsageRow[]): Report {
  return {
    csv: csvText(by, rows),
    document: rows.map((row) => usageDocument(by, row)),
    text: () =>
      rows.length === 0
        ? "no requests in this period: `tollgate requests` lists the latest"
        : usageText(by, rows),
  };
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
    { head: "provider cost, RUB", kind: "money" },
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
    ...rows.reduce<Usage>(sumOf, noUsage),
    group: "total",
    requests: sum((row) => row.requests),
    cost: rows.reduce((all, row) => all + row.cost, 0n),
    operatorCost: rows.reduce((all, row) => all + row.operatorCost, 0n),
    failed: sum((row) => row.failed),
    refunded: rows.reduce((all, row) => all + row.refunded, 0n),
  };
}
