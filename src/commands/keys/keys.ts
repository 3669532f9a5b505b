import { type Command, Option } from "commander";
import {
  changeKey,
  createKey,
  GRACE_DEFAULT,
  revokeKey,
  rotateKey,
} from "../../administration/keys.ts";
import { requireSettings } from "../../administration/keySettings.ts";
import { keyDocument } from "../../contract/operator/key.ts";
import {
  accountName,
  asUsage,
  graceDuration,
  KEY_ID_DESCRIPTION,
  keyId,
} from "../cli/arguments.ts";
import { visible, type Result } from "../cli/print.ts";
import { addSettingOptions, settingsOf, type SettingOptions } from "./keySettings.ts";
import { issuedText, keysTable, keyResult } from "./keyOutput.ts";
import { withSession, type Session } from "../cli/session.ts";
import { shortTime } from "../cli/format.ts";

interface CreateOptions extends SettingOptions {
  readonly account: string;
}

/** Registers `tollgate keys`. */
export function addKeys(program: Command): void {
  const keys = program.command("keys").description("create, list, change and revoke API keys");
  const creation = keys
    .command("create")
    .description("create a key and show it once; creates the account if it is new")
    .requiredOption("--account <name>", "the account that pays", accountName)
    .action((options: CreateOptions, command: Command) =>
      withSession(command, "new", (session) => create(session, options)),
    );
  addSettingOptions(creation, "create");
  keys
    .command("list")
    .description("list keys without their secrets")
    .option("--account <name>", "only this account")
    .action((options: { account?: string }, command: Command) =>
      withSession(command, "existing", (session) => list(session, options.account)),
    );
  keys
    .command("show")
    .description("show one key without its secret")
    .argument("<id>", KEY_ID_DESCRIPTION, keyId)
    .action((id: string, _: unknown, command: Command) =>
      withSession(command, "existing", (session) => show(session, id)),
    );
  addChanges(keys);
}

function addChanges(keys: Command): void {
  const setting = keys
    .command("set")
    .summary("change the settings of a key")
    .description(
      "Changes the settings of a key, starting with the next request. A key and its rotations share one budget: " +
        "a change applies to all of them.",
    )
    .argument("<id>", KEY_ID_DESCRIPTION, keyId)
    .action((id: string, options: SettingOptions, command: Command) => set(command, id, options));
  addSettingOptions(setting, "set");
  addKeyRotation(keys);
  keys
    .command("revoke")
    .description("reject a key for ever, starting with the next request")
    .argument("<id>", KEY_ID_DESCRIPTION, keyId)
    .action((id: string, _: unknown, command: Command) =>
      withSession(command, "existing", (session) => revoke(session, id)),
    );
}

async function create(session: Session, options: CreateOptions): Promise<Result> {
  const { account, ...settings } = options;
  const { key, document } = await createKey(session, account, settingsOf(settings));
  const credit = session.toPaste("balance", "credit", account, "100");
  const lead = `created account ${account}; add money: ${credit}`;
  return {
    document,
    text: () => issuedText(session, key, document.key, document.created_account ? [lead] : []),
  };
}

async function list(session: Session, account: string | undefined): Promise<Result> {
  if (account !== undefined) await session.store.accounts.findOrThrow(account);
  const rows = await session.store.keys.list(account);
  const owner = account ?? "NAME";
  return {
    document: rows.map(keyDocument),
    text: () =>
      rows.length === 0
        ? visible(`no keys yet: ${session.toPaste("keys", "create", "--account", owner)}`)
        : keysTable(rows, session.actor.at),
  };
}

async function show(session: Session, id: string): Promise<Result> {
  return await keyResult(session, await session.store.keys.findOrThrow(id));
}

async function set(command: Command, id: string, options: SettingOptions): Promise<void> {
  const settings = settingsOf(options);
  asUsage(() => requireSettings(settings));
  await withSession(command, "existing", async (session) =>
    keyResult(session, (await changeKey(session, id, settings)).key),
  );
}

async function revoke(session: Session, id: string): Promise<Result> {
  const { key, document } = await revokeKey(session, id);
  return {
    document,
    text: () =>
      document.applied
        ? `revoked ${key.publicId} of account ${key.account}`
        : `${key.publicId} was already revoked: nothing changed`,
  };
}

interface RotateOptions {
  readonly grace: number;
}

/** Registers `tollgate keys rotate`. */
export function addKeyRotation(keys: Command): void {
  keys
    .command("rotate")
    .summary("replace a key with a new one and show it once")
    .description(
      "Creates a key with the same settings and shows it once. The old key works for the grace period. " +
        "Both keys share one budget, and the amount spent carries over. Each key has its own rate limits, " +
        "and those of the new key start unused.",
    )
    .argument("<id>", KEY_ID_DESCRIPTION, keyId)
    .addOption(
      new Option(
        "--grace <time>",
        "how long the old key still works, such as 24h or 7d; 0s = it stops now",
      )
        .argParser(graceDuration)
        .default(graceDuration(GRACE_DEFAULT), GRACE_DEFAULT),
    )
    .action((id: string, options: RotateOptions, command: Command) =>
      withSession(command, "existing", (session) => rotate(session, id, options.grace)),
    );
}

async function rotate(session: Session, replaces: string, graceMs: number): Promise<Result> {
  const { key, document, replacedUntil, at } = await rotateKey(session, replaces, graceMs);
  const validity =
    replacedUntil <= at ? "no longer works" : `works until ${shortTime(replacedUntil)}`;
  return {
    document,
    text: () => issuedText(session, key, document.key, [`${replaces} ${validity}`]),
  };
}
