import type { Command } from "commander";
import { issueKey } from "../auth/key.ts";
import type { Config } from "../config/schema.ts";
import { keyForm } from "../contract/accountForm.ts";
import { systemClock } from "../lib/clock.ts";
import { idMaker } from "../lib/id.ts";
import { formatRoubles } from "../lib/money.ts";
import { systemRandom } from "../lib/random.ts";
import type { KeyRow } from "../store/store.ts";
import { accountName, amount, expiryTime, label, modelPatterns, wholeNumber } from "./arguments.ts";
import { CommandFailure } from "./failure.ts";
import { visible, type Result } from "./print.ts";
import { table } from "./table.ts";
import { findAccount, withSession, type Session } from "./session.ts";
import { isoTime, isoTimeOrNull, shortTime } from "./times.ts";

interface CreateOptions {
  readonly account: string;
  readonly label?: string;
  readonly expires?: number;
  readonly rpm?: number;
  readonly tpm?: number;
  readonly concurrent?: number;
  readonly models?: readonly string[];
  readonly budget?: bigint;
}

const KNOWN_MODELS_NAMED_MAX = 20;

/** Registers `tollgate keys`. */
export function addKeys(program: Command): void {
  const keys = program.command("keys").description("issue, list and revoke API keys");
  const expires = (text: string) => expiryTime(text, systemClock.epochMs());
  keys
    .command("create")
    .description("issue a key, shown this once; makes the account if it is new")
    .requiredOption("--account <name>", "the account that pays", accountName)
    .option("--label <text>", "what the key is for", label)
    .option("--expires <time>", "30d from now, or a date: 2026-12-31", expires)
    .option("--rpm <count>", "requests per minute, 0 = no limit", wholeNumber(0, 1e9))
    .option("--tpm <count>", "tokens per minute, 0 = no limit", wholeNumber(0, 1e12))
    .option("--concurrent <count>", "requests at a time, 0 = no limit", wholeNumber(0, 1e6))
    .option(
      "--models <names>",
      "the only models it may use: a,b or with wildcards gpt-*",
      modelPatterns,
    )
    .option("--budget <roubles>", "the most that it may spend in its life", amount)
    .action((options: CreateOptions, command: Command) =>
      withSession(command, "change", (session) => create(session, options)),
    );
  keys
    .command("list")
    .description("show keys, the secret part left out")
    .option("--account <name>", "only this account's")
    .action((options: { account?: string }, command: Command) =>
      withSession(command, "read", (session) => list(session, options.account)),
    );
  keys
    .command("revoke")
    .description("refuse a key for ever, from the next request on")
    .argument("<id>", "such as key_01jd..., see: tollgate keys list")
    .action((id: string, _: unknown, command: Command) =>
      withSession(command, "change", (session) => revoke(session, id)),
    );
}

function create({ config, store, actor }: Session, options: CreateOptions): Result {
  checkModels(config, options.models ?? []);
  const { key, hash, prefix } = issueKey(systemRandom);
  const publicId = idMaker(systemClock, systemRandom)("key");
  const { createdAccount } = store.admin.createKey(actor, options.account, {
    publicId,
    hash,
    prefix,
    label: options.label ?? null,
    createdAt: actor.at,
    expiresAt: options.expires ?? null,
    requestsPerMinute: options.rpm ?? null,
    tokensPerMinute: options.tpm ?? null,
    concurrentRequests: options.concurrent ?? null,
    models: options.models ?? null,
    budget: options.budget ?? null,
  });
  const row = store.keys.find(publicId);
  if (row === undefined) throw new CommandFailure(`key ${publicId} is gone: run tollgate audit`);
  return {
    document: { ...keyDocument(row), key, created_account: createdAccount },
    text: () => createdText(row, key, createdAccount),
  };
}

/** A name without `*` that no model has would be a key that can do less than was meant. */
function checkModels(config: Config, patterns: readonly string[]): void {
  const known = config.models.map(({ id }) => id);
  const unknown = patterns.filter((pattern) => !pattern.includes("*") && !known.includes(pattern));
  if (unknown.length === 0) return;
  const named = known.slice(0, KNOWN_MODELS_NAMED_MAX).join(", ") || "none";
  const more = known.length > KNOWN_MODELS_NAMED_MAX ? ", ...: see tollgate models" : "";
  throw new CommandFailure(
    `the config has no model ${unknown.map((name) => JSON.stringify(name)).join(", ")}; its models are: ${named}${more}`,
  );
}

function createdText(row: KeyRow, key: string, createdAccount: boolean): string {
  const lines = [
    ...(createdAccount
      ? [
          `created account ${row.account}; put money on it: tollgate balance credit ${row.account} 100`,
        ]
      : []),
    ...(row.accountDisabled
      ? [
          `account ${row.account} is disabled: the key works after tollgate accounts enable ${row.account}`,
        ]
      : []),
    `created ${row.publicId} for account ${row.account}. Keep the key safe, it is shown this once:`,
    "",
    key,
  ];
  return lines.map(visible).join("\n");
}

function list(session: Session, account: string | undefined): Result {
  if (account !== undefined) findAccount(session, account);
  const rows = session.store.keys.list(account);
  const owner = account ?? "NAME";
  return {
    document: rows.map(keyDocument),
    text: () =>
      rows.length === 0
        ? visible(`no keys yet: tollgate keys create --account ${owner}`)
        : listText(rows, session.actor.at),
  };
}

function listText(rows: readonly KeyRow[], nowMs: number): string {
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
      state(row, nowMs),
      row.expiresAt === null ? "never" : shortTime(row.expiresAt),
      row.lastUsedAt === null ? "never" : shortTime(row.lastUsedAt),
      formatRoubles(row.spent),
      row.budget === null ? "-" : formatRoubles(row.budget),
    ]),
  );
}

function revoke({ store, actor }: Session, id: string): Result {
  const { key, applied } = store.admin.revokeKey(actor, id);
  return {
    document: { ...keyDocument(key), applied },
    text: () =>
      applied
        ? `revoked ${key.publicId} of account ${key.account}`
        : `${key.publicId} was revoked before: nothing changed`,
  };
}

/** A limit that is null is the config's; 0 is none. */
function keyDocument(row: KeyRow) {
  return {
    ...keyForm(row, row),
    account: row.account,
    created_at: isoTime(row.createdAt),
    revoked_at: isoTimeOrNull(row.revokedAt),
    last_used_at: isoTimeOrNull(row.lastUsedAt),
    models: row.models,
  };
}

function state(row: KeyRow, nowMs: number): string {
  if (row.revokedAt !== null) return "revoked";
  if (row.expiresAt !== null && row.expiresAt <= nowMs) return "expired";
  return row.accountDisabled ? "account disabled" : "active";
}
