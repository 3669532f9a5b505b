import { Type } from "@sinclair/typebox";
import { UsageDocument, usageDocument } from "../contract/operator/usage.ts";
import { addUsage as sumOf, noUsage, type Usage } from "../contract/usage.ts";
import { rareZeros } from "../contract/figureParts.ts";
import { csvOf } from "../lib/csv.ts";
import { formatRoubles } from "../lib/money.ts";
import { table } from "../lib/terminal.ts";
import { usageGroupings, type UsageGrouping, type UsageRow } from "../store/store.ts";
import { chosen, command, csvFlag, withDefault, type Group } from "./operation.ts";
import { checkPeriod, onlyAccount, period } from "./requests.ts";

const report = command({
  name: "usage",
  doc: "sum requests, tokens, roubles and errors; days and dates are UTC",
  input: {
    by: {
      ...withDefault("day", "--by <group>", "group the sums by", chosen(usageGroupings)),
      choices: usageGroupings,
    },
    account: onlyAccount,
    ...period,
    csv: csvFlag,
  },
  output: Type.Array(UsageDocument),
  effects: [],
  access: "report",
  check: checkPeriod,
  async run({ store }, { by, account, since, until }) {
    if (account !== undefined) await store.accounts.findOrThrow(account);
    const rows = await store.usage.by(by, { account, since, until });
    return { document: rows.map((row) => usageDocument(by, row)), rows };
  },
  csv: ({ rows }, { by }) => csvText(by, rows),
  text: ({ rows }, _, { by }) =>
    rows.length === 0
      ? "no requests in this period: `tollgate requests` lists the latest"
      : usageText(by, rows),
});

function csvText(by: UsageGrouping, rows: readonly UsageRow[]): string {
  const head = Object.keys({ ...usageDocument(by, total([])), ...rareZeros });
  const documents = rows.map((row) => ({ ...rareZeros, ...usageDocument(by, row) }));
  return csvOf(head, documents as unknown as readonly Record<string, string | number>[]);
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

export const usage: Group = { name: "usage", doc: report.doc, operations: [report] };
