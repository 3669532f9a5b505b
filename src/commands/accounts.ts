import { Option, type Command } from "commander";
import {
  createAccount,
  setDisabled,
  setAccount,
  shownAccount,
  type ShownAccount,
} from "../administration/accounts.ts";
import type { NotifyConfig } from "../config/schema.ts";
import { formatRoubles } from "../lib/money.ts";
import { accountWebhookSecret } from "../notices/recipients.ts";
import { available, type AccountRow } from "../store/store.ts";
import { accountName, lowBalance, none, orNone, overdraft } from "./cli/arguments.ts";
import { CommandFailure, visible, type Result } from "./cli/print.ts";
import { fields, table, shortTime } from "./cli/format.ts";
import { printWaiting, withSession, type Session } from "./cli/session.ts";

interface OverdraftOption {
  readonly overdraft: bigint;
}

interface SetOptions {
  readonly overdraft?: bigint;
  readonly low?: bigint | typeof none;
  readonly notify?: string | typeof none;
}

const NOTHING_TO_CHANGE = "nothing to change: give at least one of --overdraft, --low, --notify";

/** Registers `tollgate accounts`. */
export function addAccounts(program: Command): void {
  const accounts = program.command("accounts").description("create, list and change accounts");
  accounts
    .command("create")
    .description("create an account with a balance of 0")
    .argument("<name>", "1 to 64 letters, digits or . _ - @", accountName)
    .addOption(
      new Option("--overdraft <roubles>", "how far the balance may go below 0")
        .argParser(overdraft)
        .default(0n, "0"),
    )
    .action((name: string, options: OverdraftOption, command: Command) =>
      withSession(command, "new", (session) => create(session, name, options)),
    );
  accounts
    .command("list")
    .description("list all accounts")
    .action((_: unknown, command: Command) =>
      withSession(command, "existing", (session) => listResult(session)),
    );
  accounts
    .command("show")
    .description("show one account")
    .argument("<name>")
    .action((name: string, _: unknown, command: Command) =>
      withSession(command, "existing", async (session) =>
        accountResult(shownAccount(await session.store.accounts.findOrThrow(name))),
      ),
    );
  addChanges(accounts);
}

function addChanges(accounts: Command): void {
  accounts
    .command("set")
    .description("change the settings of an account")
    .argument("<name>")
    .option("--overdraft <roubles>", "how far the balance may go below 0, or none", overdraft)
    .option(
      "--low <roubles>",
      "send a notice when less is left, or none: as the config says",
      orNone(lowBalance),
    )
    .option(
      "--notify <url>",
      "send notices about the account and its keys there too, such as https://... or mailto:..., or none",
      orNone(String),
    )
    .action((name: string, options: SetOptions, command: Command) => {
      if (Object.keys(options).length === 0)
        throw new CommandFailure(NOTHING_TO_CHANGE, { status: 2 });
      // The address must be one that the config can send to, and its secret follows from that of the config.
      const secrets = typeof options.notify === "string" ? "notify" : "unread";
      return withSession(command, "existing", (session) => set(session, name, options), secrets);
    });
  const states = [
    ["disable", "reject all keys of an account, starting with the next request"],
    ["enable", "accept the keys of a disabled account again"],
  ] as const;
  for (const [name, description] of states) {
    accounts
      .command(name)
      .description(description)
      .argument("<name>")
      .action((account: string, _: unknown, command: Command) =>
        withSession(command, "existing", async (session) =>
          accountResult(await setDisabled(session, account, name === "disable")),
        ),
      );
  }
}

async function set(session: Session, name: string, options: SetOptions): Promise<Result> {
  const { overdraft, low, notify } = options;
  const changes = {
    overdraft,
    low: low === none ? null : low,
    notifyUrl: notify === none ? null : notify,
  };
  const shown = await setAccount(session, name, changes, printWaiting);
  const result = accountResult(shown);
  const secret = webhookSecret(session.config.notify, shown.account);
  if (secret === undefined) return result;
  return {
    document: { ...shown.document, notify_secret: secret },
    text: () => `${result.text()}\nthe holder checks the signature of a notice with ${secret}`,
  };
}

/** The secret that the receiver of an account's notices needs. Undefined for one that is not a webhook. */
function webhookSecret(
  { secret }: NotifyConfig,
  { name, notifyUrl }: AccountRow,
): string | undefined {
  const isWebhook = notifyUrl !== null && !notifyUrl.startsWith("mailto:");
  return isWebhook && secret !== undefined ? accountWebhookSecret(secret, name) : undefined;
}

async function create(session: Session, name: string, options: OverdraftOption): Promise<Result> {
  const { toPaste } = session;
  const { account, document } = await createAccount(session, name, options.overdraft);
  return {
    document,
    text: () =>
      [
        `created account ${account.name}`,
        `next: ${toPaste("balance", "credit", name, "100")}`,
        `      ${toPaste("keys", "create", "--account", name)}`,
      ]
        .map(visible)
        .join("\n"),
  };
}

function accountResult({ account, document }: ShownAccount): Result {
  return {
    document,
    text: () =>
      fields([
        ["account", account.name],
        ["state", state(account)],
        ["balance, RUB", document.balance_rub],
        ["held, RUB", document.held_rub],
        ["overdraft, RUB", document.overdraft_rub],
        ["available, RUB", document.available_rub],
        ["low below, RUB", document.low_rub ?? "as in the config"],
        ["notices to", document.notify ?? "the operator only"],
        ["created", shortTime(account.createdAt)],
      ]),
  };
}

async function listResult({ store, toPaste }: Session): Promise<Result> {
  const accounts = await store.accounts.list();
  const columns = [
    { head: "account" },
    { head: "balance, RUB", kind: "money" },
    { head: "held, RUB", kind: "money" },
    { head: "overdraft, RUB", kind: "money" },
    { head: "available, RUB", kind: "money" },
    { head: "state" },
    { head: "created" },
  ] as const;
  const cells = (account: AccountRow) => [
    account.name,
    formatRoubles(account.balance),
    formatRoubles(account.reserved),
    formatRoubles(account.overdraft),
    formatRoubles(available(account)),
    state(account),
    shortTime(account.createdAt),
  ];
  return {
    document: accounts.map((account) => shownAccount(account).document),
    text: () =>
      accounts.length === 0
        ? visible(`no accounts yet: ${toPaste("accounts", "create", "NAME")}`)
        : table(columns, accounts.map(cells)),
  };
}

function state(account: AccountRow): string {
  return account.disabled ? "disabled" : "active";
}
