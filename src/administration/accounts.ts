import { Type } from "@sinclair/typebox";
import type { NotifyConfig } from "../config/schema.ts";
import { AccountDocument, accountDocument } from "../contract/operator/account.ts";
import { formatRoubles } from "../lib/money.ts";
import { nearest } from "../lib/nearest.ts";
import { fields, shortTime, table, visible } from "../lib/terminal.ts";
import { accountUrlProblem, accountWebhookSecret } from "../notices/recipients.ts";
import { available, type AccountRow } from "../store/store.ts";
import {
  anyText,
  command,
  operation,
  optional,
  required,
  withDefault,
  type Group,
} from "./operation.ts";
import type { Operator } from "./operator.ts";
import { withReservedMoney } from "./reservedMoney.ts";
import { accountName, InvalidValue, lowBalance, orNone, overdraft } from "./values.ts";

/** The row of an account and its document. */
interface ShownAccount {
  readonly account: AccountRow;
  readonly document: AccountDocument;
  /** Its plan is no longer in the config. */
  readonly isPlanGone?: boolean;
}

function shown(account: AccountRow): ShownAccount {
  return { account, document: accountDocument(account, available(account)) };
}

const account = required("<name>", undefined, anyText);

const create = operation({
  name: "accounts create",
  doc: "create an account with a balance of 0",
  route: "POST /api/accounts",
  input: {
    name: required("<name>", "1 to 64 letters, digits or . _ - @", accountName),
    overdraft: withDefault(
      "0",
      "--overdraft <roubles>",
      "how far the balance may go below 0",
      overdraft,
    ),
  },
  output: AccountDocument,
  effects: ["accounts"],
  access: "new",
  run: async ({ store, actor }, { name, overdraft }) =>
    shown(await store.admin.createAccount(actor, name, overdraft)),
  text: ({ account: { name } }, { toPaste }) =>
    [
      `created account ${name}`,
      `next: ${toPaste("balance", "credit", name, "100")}`,
      `      ${toPaste("keys", "create", "--account", name)}`,
    ]
      .map(visible)
      .join("\n"),
});

const list = command({
  name: "accounts list",
  doc: "list all accounts",
  input: {},
  output: Type.Array(AccountDocument),
  effects: [],
  async run({ store }) {
    const rows = await store.accounts.list();
    return { document: rows.map((row) => shown(row).document), rows };
  },
  text: ({ rows }, { toPaste }) =>
    rows.length === 0
      ? visible(`no accounts yet: ${toPaste("accounts", "create", "NAME")}`)
      : listText(rows),
});

const show = command({
  name: "accounts show",
  doc: "show one account",
  input: { account },
  output: AccountDocument,
  effects: [],
  async run({ config, store }, { account: name }) {
    const found = shown(await store.accounts.findOrThrow(name));
    const { plan } = found.account;
    return { ...found, isPlanGone: plan !== null && !config.plans.some(({ id }) => id === plan) };
  },
  text: accountText,
});

const set = operation({
  name: "accounts set",
  doc: "change the settings of an account",
  route: "POST /api/accounts/:account/settings",
  input: {
    account,
    overdraft: optional(
      "--overdraft <roubles>",
      "how far the balance may go below 0, or none",
      overdraft,
    ),
    low: optional(
      "--low <roubles>",
      "send a notice when less is left, or none: as the config says",
      orNone(lowBalance),
    ),
    // The console's config has no secrets, so it cannot tell whether an address can be sent to.
    notify: {
      ...optional(
        "--notify <url>",
        "send notices about the account and its keys there too, such as https://... or mailto:..., or none",
        orNone(anyText),
      ),
      isCliOnly: true,
    },
    plan: optional(
      "--plan <id>",
      "a price plan of the config, or none: the prices of the models",
      orNone(anyText),
    ),
  },
  needsOne: true,
  output: AccountDocument,
  effects: ["accounts"],
  // The address must be one that the config can send to, and its secret follows from that of the config.
  needsNotifySecrets: ({ notify }) => typeof notify === "string",
  /** Waits for money that the serving gateway has reserved. */
  async run(operator, { account: name, overdraft, low, notify, plan }) {
    refuseAddress(operator, notify);
    refusePlan(operator, plan);
    const { admin } = operator.store;
    const changes = { overdraft, low, notifyUrl: notify, plan };
    const change = () => admin.setAccount(operator.actor, name, changes);
    const account = await withReservedMoney(admin, name, change, operator.onWait);
    const { document } = shown(account);
    const secret = webhookSecret(operator.config.notify, account);
    if (secret === undefined) return { account, document };
    return { account, document: { ...document, notify_secret: secret } };
  },
  text(result) {
    const text = accountText(result);
    if (!("notify_secret" in result.document)) return text;
    const secret = result.document.notify_secret;
    return `${text}\nthe holder checks the signature of a notice with ${secret}`;
  },
});

/** Throws InvalidValue for an address that notices cannot go to. */
function refuseAddress({ config }: Operator, url: string | null | undefined): void {
  if (typeof url !== "string") return;
  const problem = accountUrlProblem(config.notify, url);
  if (problem !== undefined) throw new InvalidValue(`notify ${problem}`, { field: "notify" });
}

/** Throws InvalidValue for a plan that the config does not have. */
function refusePlan({ config }: Operator, plan: string | null | undefined): void {
  if (typeof plan !== "string") return;
  const ids = config.plans.map(({ id }) => id);
  if (ids.includes(plan)) return;
  const meant = nearest(plan, ids);
  const known = ids.length === 0 ? "add it under [[plans]]" : `the plans are ${ids.join(", ")}`;
  const advice = meant === undefined ? known : `did you mean ${meant}?`;
  throw new InvalidValue(`the config has no plan ${JSON.stringify(plan)}; ${advice}`, {
    field: "plan",
  });
}

/** The secret that the receiver of an account's notices needs. Undefined for one that is not a webhook. */
function webhookSecret(
  { secret }: NotifyConfig,
  { name, notifyUrl }: AccountRow,
): string | undefined {
  const isWebhook = notifyUrl !== null && !notifyUrl.startsWith("mailto:");
  return isWebhook && secret !== undefined ? accountWebhookSecret(secret, name) : undefined;
}

const disable = operation({
  name: "accounts disable",
  doc: "reject all keys of an account, starting with the next request",
  route: "POST /api/accounts/:account/disable",
  input: { account },
  output: AccountDocument,
  effects: ["accounts"],
  run: async ({ store, actor }, { account }) =>
    shown(await store.admin.setDisabled(actor, account, true)),
  text: accountText,
});

const enable = operation({
  name: "accounts enable",
  doc: "accept the keys of a disabled account again",
  route: "POST /api/accounts/:account/enable",
  input: { account },
  output: AccountDocument,
  effects: ["accounts"],
  run: async ({ store, actor }, { account }) =>
    shown(await store.admin.setDisabled(actor, account, false)),
  text: accountText,
});

function accountText({ account, document, isPlanGone = false }: ShownAccount): string {
  const plan = document.plan ?? "none";
  return fields([
    ["account", account.name],
    ["state", state(account)],
    ["balance, RUB", document.balance_rub],
    ["held, RUB", document.held_rub],
    ["overdraft, RUB", document.overdraft_rub],
    ["available, RUB", document.available_rub],
    ["low below, RUB", document.low_rub ?? "as in the config"],
    ["notices to", document.notify ?? "the operator only"],
    [
      "price plan",
      isPlanGone ? `${plan}, which the config does not have: it pays the models' prices` : plan,
    ],
    ["created", shortTime(account.createdAt)],
  ]);
}

function listText(rows: readonly AccountRow[]): string {
  const columns = [
    { head: "account" },
    { head: "balance, RUB", kind: "money" },
    { head: "held, RUB", kind: "money" },
    { head: "overdraft, RUB", kind: "money" },
    { head: "available, RUB", kind: "money" },
    { head: "state" },
    { head: "created" },
  ] as const;
  return table(
    columns,
    rows.map((account) => [
      account.name,
      formatRoubles(account.balance),
      formatRoubles(account.reserved),
      formatRoubles(account.overdraft),
      formatRoubles(available(account)),
      state(account),
      shortTime(account.createdAt),
    ]),
  );
}

function state(account: AccountRow): string {
  return account.disabled ? "disabled" : "active";
}

export const accounts: Group = {
  name: "accounts",
  doc: "create, list and change accounts",
  operations: [create, list, show, set, disable, enable],
};
