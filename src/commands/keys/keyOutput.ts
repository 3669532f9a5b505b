import { keyDocument, keyState } from "../../contract/operator/key.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { KeyRow } from "../../store/store.ts";
import { visible, type Result } from "../cli/print.ts";
import type { Session } from "../cli/session.ts";
import { fields, table, shortTime } from "../cli/format.ts";

/** The output of `keys show` and `keys set`. */
export async function keyResult({ store, actor }: Session, row: KeyRow): Promise<Result> {
  const newest = await store.keys.newestOfChain(row);
  return { document: keyDocument(row), text: () => keyText(row, newest, actor.at) };
}

/** The text for a new key. No other text contains the secret `key`. It starts with `lead`. */
export function issuedText(
  { toPaste }: Session,
  row: KeyRow,
  key: string,
  lead: readonly string[],
): string {
  const enable = toPaste("accounts", "enable", row.account);
  const disabled = row.accountDisabled
    ? [`account ${row.account} is disabled: the key works after ${enable}`]
    : [];
  const created = `created ${row.publicId} for account ${row.account}. Store the key now, it is not shown again:`;
  return [...lead, ...disabled, created, "", key].map(visible).join("\n");
}

/** A table of keys. Keys of one rotation chain show their shared budget and the amount that all of them spent. */
export function keysTable(rows: readonly KeyRow[], nowMs: number): string {
  const columns = [
    { head: "id" },
    { head: "account" },
    { head: "label" },
    { head: "prefix" },
    { head: "state" },
    { head: "expires" },
    { head: "last used" },
    { head: "spent, RUB", kind: "money" },
    { head: "budget, RUB", kind: "money" },
  ] as const;
  return table(
    columns,
    rows.map((row) => [
      row.publicId,
      row.account,
      row.label ?? "-",
      row.prefix,
      keyState(row, nowMs),
      timeOrNever(row.expiresAt),
      timeOrNever(row.lastUsedAt),
      formatRoubles(row.spent),
      row.budget === null ? "-" : formatRoubles(row.budget),
    ]),
  );
}

function keyText(row: KeyRow, newest: KeyRow, nowMs: number): string {
  const isReplaced = newest.id !== row.id;
  return fields([
    ["key", row.publicId],
    ["account", row.account],
    ["label", row.label ?? "-"],
    ["prefix", row.prefix],
    ["state", keyState(row, nowMs)],
    ...(isReplaced ? [["replaced by", newest.publicId] as const] : []),
    ["created", shortTime(row.createdAt)],
    ["expires", timeOrNever(row.expiresAt)],
    ["revoked", timeOrNever(row.revokedAt)],
    ["last used", timeOrNever(row.lastUsedAt)],
    ["first address", row.firstAddress ?? "-"],
    ["last address", row.lastAddress ?? "-"],
    ["models", modelsText(row.models)],
    ["requests per minute", limitText(row.requestsPerMinute)],
    ["tokens per minute", limitText(row.tokensPerMinute)],
    ["concurrent requests", limitText(row.concurrentRequests)],
    ["spent, RUB", formatRoubles(row.spent)],
    ["budget, RUB", row.budget === null ? "no limit" : formatRoubles(row.budget)],
  ]);
}

function modelsText(models: KeyRow["models"]): string {
  if (models === null) return "all";
  return models.join(", ") || "none, the list is damaged: set --models again";
}

function limitText(limit: number | null): string {
  if (limit === null) return "limit of the config";
  return limit === 0 ? "no limit" : String(limit);
}

function timeOrNever(atMs: number | null): string {
  return atMs === null ? "never" : shortTime(atMs);
}
