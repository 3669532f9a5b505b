import { Type } from "@sinclair/typebox";
import { issueKey } from "../auth/apiKey.ts";
import type { Config } from "../config/schema.ts";
import { LIMITS_MAX } from "../config/settings.ts";
import {
  CreatedKeyDocument,
  createdKeyDocument,
  KeyDocument,
  keyDocument,
  keyState,
  RevokedKeyDocument,
  revokedKeyDocument,
  RotatedKeyDocument,
  rotatedKeyDocument,
} from "../contract/operator/key.ts";
import { systemClock } from "../lib/clock.ts";
import { formatRoubles } from "../lib/money.ts";
import { idMaker, systemRandom } from "../lib/random.ts";
import { fields, shortTime, table, visible } from "../lib/terminal.ts";
import type { KeyChanges, KeyRow } from "../store/store.ts";
import {
  anyText,
  command,
  idOf,
  operation,
  optional,
  required,
  withDefault,
  type Group,
  type OptionalField,
  type Terminal,
  type Values,
} from "./operation.ts";
import type { Operator } from "./operator.ts";
import {
  accountName,
  amount,
  expiryTime,
  graceDuration,
  InvalidValue,
  keyId,
  label,
  modelPatterns,
  orNone,
  wholeNumber,
} from "./values.ts";

const id = idOf("key id such as key_01jd...; `tollgate keys list` shows them", keyId);

/** The settings of a new key. */
const newSettings = {
  label: optional("--label <text>", "what the key is for", label),
  expires: optional(
    "--expires <time>",
    "duration from now such as 30d, or a date: 2026-12-31",
    expiryTime,
  ),
  rpm: optional(
    "--rpm <count>",
    "requests per minute, 0 = no limit",
    wholeNumber(0, LIMITS_MAX.requestsPerMinute),
  ),
  tpm: optional(
    "--tpm <count>",
    "tokens per minute, 0 = no limit",
    wholeNumber(0, LIMITS_MAX.tokensPerMinute),
  ),
  concurrent: optional(
    "--concurrent <count>",
    "concurrent requests, 0 = no limit",
    wholeNumber(0, LIMITS_MAX.concurrentRequests),
  ),
  models: optional(
    "--models <names>",
    "models that the key may use: a,b or with wildcards gpt-*",
    modelPatterns,
  ),
  budget: optional(
    "--budget <roubles>",
    "lifetime limit in roubles, shared with the rotations of the key; a request that can cost more than the rest is rejected, but a provider that reports more tokens than were held can exceed it",
    amount,
  ),
};

/** A setting of a key that exists: `none` removes it. */
function changed<Value>(
  setting: OptionalField<Value>,
  without: string,
): OptionalField<Value | null> {
  return { ...setting, doc: `${setting.doc}; none = ${without}`, read: orNone(setting.read) };
}

const changedSettings = {
  label: changed(newSettings.label, "no label"),
  expires: changed(newSettings.expires, "never"),
  rpm: changed(newSettings.rpm, "the limit of the config"),
  tpm: changed(newSettings.tpm, "the limit of the config"),
  concurrent: changed(newSettings.concurrent, "the limit of the config"),
  models: changed(newSettings.models, "all models"),
  budget: changed(newSettings.budget, "no limit"),
};

/** The settings as the store has them. Throws InvalidValue for a model that the config does not have. */
function keyChanges(config: Config, settings: Values<typeof changedSettings>): KeyChanges {
  refuseUnknownModels(config, settings.models ?? []);
  return {
    label: settings.label,
    expiresAt: settings.expires,
    requestsPerMinute: settings.rpm,
    tokensPerMinute: settings.tpm,
    concurrentRequests: settings.concurrent,
    models: settings.models,
    budget: settings.budget,
  };
}

const KNOWN_MODELS_NAMED_MAX = 20;

/** A misspelled model would silently give the key less access than intended. */
function refuseUnknownModels(config: Config, patterns: readonly string[]): void {
  const known = config.models.map(({ id }) => id);
  const unknown = patterns.filter((pattern) => !pattern.includes("*") && !known.includes(pattern));
  if (unknown.length === 0) return;
  const named = known.slice(0, KNOWN_MODELS_NAMED_MAX).join(", ") || "none";
  const more = known.length > KNOWN_MODELS_NAMED_MAX ? ", ...: see tollgate models" : "";
  throw new InvalidValue(
    `the config does not have the model ${unknown.map((name) => JSON.stringify(name)).join(", ")}; its models are: ${named}${more}`,
    { field: "models" },
  );
}

const create = operation({
  name: "keys create",
  doc: "create a key and show it once; creates the account if it is new",
  route: "POST /api/keys",
  input: {
    account: required("--account <name>", "the account that pays", accountName),
    ...newSettings,
  },
  output: CreatedKeyDocument,
  effects: ["accounts", "keys"],
  access: "new",
  async run(operator, { account, ...settings }) {
    const changes = keyChanges(operator.config, settings);
    const { store, actor } = operator;
    const { secret, stored } = newKey();
    const { key, createdAccount } = await store.admin.createKey(actor, account, {
      ...changes,
      ...stored,
      createdAt: actor.at,
    });
    return { key, document: createdKeyDocument(key, secret, createdAccount) };
  },
  text({ key, document }, terminal) {
    const { account } = key;
    const credit = terminal.toPaste("balance", "credit", account, "100");
    const lead = `created account ${account}; add money: ${credit}`;
    return issuedText(terminal, key, document.key, document.created_account ? [lead] : []);
  },
});

const list = command({
  name: "keys list",
  doc: "list keys without their secrets",
  input: { account: optional("--account <name>", "only this account", anyText) },
  output: Type.Array(KeyDocument),
  effects: [],
  async run({ store }, { account }) {
    if (account !== undefined) await store.accounts.findOrThrow(account);
    const rows = await store.keys.list(account);
    return { document: rows.map(keyDocument), rows };
  },
  text: ({ rows }, { toPaste, nowMs }, { account = "NAME" }) =>
    rows.length === 0
      ? visible(`no keys yet: ${toPaste("keys", "create", "--account", account)}`)
      : listText(rows, nowMs),
});

const show = command({
  name: "keys show",
  doc: "show one key without its secret",
  input: { id },
  output: KeyDocument,
  effects: [],
  run: async ({ store }, { id }) => await shown(store, await store.keys.findOrThrow(id)),
  text: (result, { nowMs }) => keyText(result, nowMs),
});

const set = operation({
  name: "keys set",
  doc: "change the settings of a key",
  about:
    "Changes the settings of a key, starting with the next request. A key and its rotations share one budget: " +
    "a change applies to all of them.",
  route: "POST /api/keys/:id/settings",
  input: { id, ...changedSettings },
  needsOne: true,
  output: KeyDocument,
  effects: ["keys"],
  async run({ config, store, actor }, { id, ...settings }) {
    return await shown(store, await store.admin.changeKey(actor, id, keyChanges(config, settings)));
  },
  text: (result, { nowMs }) => keyText(result, nowMs),
});

const rotate = operation({
  name: "keys rotate",
  doc: "replace a key with a new one and show it once",
  about:
    "Creates a key with the same settings and shows it once. The old key works for the grace period. " +
    "Both keys share one budget, and the amount spent carries over. Each key has its own rate limits, " +
    "and those of the new key start unused.",
  route: "POST /api/keys/:id/rotate",
  input: {
    id,
    grace: withDefault(
      "24h",
      "--grace <time>",
      "how long the old key still works, such as 24h or 7d; 0s = it stops now",
      graceDuration,
    ),
  },
  output: RotatedKeyDocument,
  effects: ["keys"],
  async run({ store, actor }, { id, grace }) {
    const { secret, stored: successor } = newKey();
    const rotation = { successor, graceMs: grace };
    const { key, replacedUntil } = await store.admin.rotateKey(actor, id, rotation);
    const works = replacedUntil > actor.at;
    const document = rotatedKeyDocument(key, secret, id);
    return { key, document, replacedUntil: works ? replacedUntil : undefined };
  },
  text({ key, document, replacedUntil }, terminal) {
    const validity =
      replacedUntil === undefined ? "no longer works" : `works until ${shortTime(replacedUntil)}`;
    return issuedText(terminal, key, document.key, [`${document.replaces} ${validity}`]);
  },
});

const revoke = operation({
  name: "keys revoke",
  doc: "reject a key for ever, starting with the next request",
  route: "POST /api/keys/:id/revoke",
  input: { id },
  output: RevokedKeyDocument,
  effects: ["keys"],
  async run({ store, actor }, { id }) {
    const { key, applied } = await store.admin.revokeKey(actor, id);
    return { document: revokedKeyDocument(key, applied) };
  },
  text: ({ document: { applied, id, account } }) =>
    applied ? `revoked ${id} of account ${account}` : `${id} was already revoked: nothing changed`,
});

interface NewKey {
  /** Shown once and never stored. */
  readonly secret: string;
  readonly stored: {
    readonly publicId: string;
    readonly hash: Uint8Array;
    readonly prefix: string;
  };
}

/** Makes a key. The caller writes it to the store. */
export function newKey(): NewKey {
  const { key: secret, hash, prefix } = issueKey(systemRandom);
  const publicId = idMaker(systemClock, systemRandom)("key");
  return { secret, stored: { publicId, hash, prefix } };
}

/** The text for a new key. No other text contains its secret. It starts with `lead`. */
function issuedText(
  { toPaste }: Terminal,
  row: KeyRow,
  secret: string,
  lead: readonly string[],
): string {
  const enable = toPaste("accounts", "enable", row.account);
  const disabled = row.accountDisabled
    ? [`account ${row.account} is disabled: the key works after ${enable}`]
    : [];
  const created = `created ${row.publicId} for account ${row.account}. Store the key now, it is not shown again:`;
  return [...lead, ...disabled, created, "", secret].map(visible).join("\n");
}

/** A table of keys. Keys of one rotation chain show their shared budget and the amount that all of them spent. */
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
      keyState(row, nowMs),
      timeOrNever(row.expiresAt),
      timeOrNever(row.lastUsedAt),
      formatRoubles(row.spent),
      row.budget === null ? "-" : formatRoubles(row.budget),
    ]),
  );
}

/** `newest`: the key that works now, if the key was rotated. */
interface ShownKey {
  readonly document: KeyDocument;
  readonly row: KeyRow;
  readonly newest: KeyRow;
}

async function shown(store: Operator["store"], row: KeyRow): Promise<ShownKey> {
  return { document: keyDocument(row), row, newest: await store.keys.newestOfChain(row) };
}

function keyText({ row, newest }: ShownKey, nowMs: number): string {
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

export const keys: Group = {
  name: "keys",
  doc: "create, list, change and revoke API keys",
  operations: [create, list, show, set, rotate, revoke],
};
