import type { Command } from "commander";
import { accountName, KEY_ID_DESCRIPTION, keyId } from "./arguments.ts";
import { CommandFailure } from "./failure.ts";
import { addKeyRotation } from "./keyRotation.ts";
import { addSettingOptions, settingFlags, settingsOf, type SettingOptions } from "./keySettings.ts";
import { issuedKey, keyDocument, keysTable, shownKey } from "./keyShown.ts";
import { newKey } from "./newKey.ts";
import { visible, type Result } from "./print.ts";
import { withSession, type Session } from "./session.ts";

interface CreateOptions extends SettingOptions {
  readonly account: string;
}

/** Registers `tollgate keys`. */
export function addKeys(program: Command): void {
  const keys = program.command("keys").description("issue, list, change and revoke API keys");
  const creation = keys
    .command("create")
    .description("issue a key, shown this once; makes the account if it is new")
    .requiredOption("--account <name>", "the account that pays", accountName)
    .action((options: CreateOptions, command: Command) =>
      withSession(command, "new", (session) => create(session, options)),
    );
  addSettingOptions(creation, "create");
  keys
    .command("list")
    .description("show keys, the secret part left out")
    .option("--account <name>", "only this account's")
    .action((options: { account?: string }, command: Command) =>
      withSession(command, "existing", (session) => list(session, options.account)),
    );
  keys
    .command("show")
    .description("show one key, the secret part left out")
    .argument("<id>", KEY_ID_DESCRIPTION, keyId)
    .action((id: string, _: unknown, command: Command) =>
      withSession(command, "existing", (session) => show(session, id)),
    );
  addChanges(keys);
}

function addChanges(keys: Command): void {
  const setting = keys
    .command("set")
    .summary("change a key")
    .description(
      "Changes a key from the next request on. Keys that rotations put in each other's place have one budget " +
        "between them: set on one of them it is that of all.",
    )
    .argument("<id>", KEY_ID_DESCRIPTION, keyId)
    .action((id: string, options: SettingOptions, command: Command) => set(command, id, options));
  addSettingOptions(setting, "set");
  addKeyRotation(keys);
  keys
    .command("revoke")
    .description("refuse a key for ever, from the next request on")
    .argument("<id>", KEY_ID_DESCRIPTION, keyId)
    .action((id: string, _: unknown, command: Command) =>
      withSession(command, "existing", (session) => revoke(session, id)),
    );
}

function create(session: Session, options: CreateOptions): Result {
  const settings = settingsOf(session.config, options);
  const { store, actor, toPaste } = session;
  const { secret, kept } = newKey();
  const { key, createdAccount } = store.admin.createKey(actor, options.account, {
    ...settings,
    ...kept,
    createdAt: actor.at,
  });
  const credit = toPaste("balance", "credit", key.account, "100");
  const lead = `created account ${key.account}; put money on it: ${credit}`;
  const { document, text } = issuedKey(session, key, secret, createdAccount ? [lead] : []);
  return { document: { ...document, created_account: createdAccount }, text };
}

function list(session: Session, account: string | undefined): Result {
  if (account !== undefined) session.store.accounts.existing(account);
  const rows = session.store.keys.list(account);
  const owner = account ?? "NAME";
  return {
    document: rows.map(keyDocument),
    text: () =>
      rows.length === 0
        ? visible(`no keys yet: ${session.toPaste("keys", "create", "--account", owner)}`)
        : keysTable(rows, session.actor.at),
  };
}

function show(session: Session, id: string): Result {
  return shownKey(session, session.store.keys.existing(id));
}

async function set(command: Command, id: string, options: SettingOptions): Promise<void> {
  if (Object.keys(options).length === 0) {
    throw new CommandFailure(`nothing to change: give at least one of ${settingFlags}`, {
      status: 2,
    });
  }
  await withSession(command, "existing", (session) => {
    const changes = settingsOf(session.config, options);
    return shownKey(session, session.store.admin.changeKey(session.actor, id, changes));
  });
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
