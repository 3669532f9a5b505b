import { type Command, Option } from "commander";
import { accountName, KEY_ID_DESCRIPTION, keyId, graceDuration } from "../cli/arguments.ts";
import { CommandFailure, visible, type Result } from "../cli/print.ts";
import { addSettingOptions, settingFlags, settingsOf, type SettingOptions } from "./keySettings.ts";
import { issuedText, keysTable, keyResult } from "./keyOutput.ts";
import { withSession, type Session } from "../cli/session.ts";
import {
  createdKeyDocument,
  keyDocument,
  revokedKeyDocument,
  rotatedKeyDocument,
} from "../../contract/operator/key.ts";
import { shortTime } from "../cli/format.ts";
import { issueKey } from "../../auth/apiKey.ts";
import { systemClock } from "../../lib/clock.ts";
import { idMaker, systemRandom } from "../../lib/random.ts";

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

function create(session: Session, options: CreateOptions): Result {
  const settings = settingsOf(session.config, options);
  const { store, actor, toPaste } = session;
  const { secret, stored } = newKey();
  const { key, createdAccount } = store.admin.createKey(actor, options.account, {
    ...settings,
    ...stored,
    createdAt: actor.at,
  });
  const credit = toPaste("balance", "credit", key.account, "100");
  const lead = `created account ${key.account}; add money: ${credit}`;
  return {
    document: createdKeyDocument(key, secret, createdAccount),
    text: () => issuedText(session, key, secret, createdAccount ? [lead] : []),
  };
}

function list(session: Session, account: string | undefined): Result {
  if (account !== undefined) session.store.accounts.findOrThrow(account);
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
  return keyResult(session, session.store.keys.findOrThrow(id));
}

async function set(command: Command, id: string, options: SettingOptions): Promise<void> {
  if (Object.keys(options).length === 0) {
    throw new CommandFailure(`nothing to change: give at least one of ${settingFlags}`, {
      status: 2,
    });
  }
  await withSession(command, "existing", (session) => {
    const changes = settingsOf(session.config, options);
    return keyResult(session, session.store.admin.changeKey(session.actor, id, changes));
  });
}

function revoke({ store, actor }: Session, id: string): Result {
  const { key, applied } = store.admin.revokeKey(actor, id);
  return {
    document: revokedKeyDocument(key, applied),
    text: () =>
      applied
        ? `revoked ${key.publicId} of account ${key.account}`
        : `${key.publicId} was already revoked: nothing changed`,
  };
}

interface RotateOptions {
  readonly grace: number;
}

const GRACE_DEFAULT = "24h";

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

function rotate(session: Session, replaces: string, graceMs: number): Result {
  const { store, actor } = session;
  const { secret, stored: successor } = newKey();
  const { key, replacedUntil } = store.admin.rotateKey(actor, replaces, { successor, graceMs });
  const validity =
    replacedUntil <= actor.at ? "no longer works" : `works until ${shortTime(replacedUntil)}`;
  return {
    document: rotatedKeyDocument(key, secret, replaces),
    text: () => issuedText(session, key, secret, [`${replaces} ${validity}`]),
  };
}

interface NewKey {
  /** Shown once and never stored. */
  readonly secret: string;
  readonly stored: {
    readonly publicId: string;
    readonly hash: Uint8Array;
    readonly prefix: string;
  };
}

/** Creates a key. The caller writes it to the store. */
export function newKey(): NewKey {
  const { key: secret, hash, prefix } = issueKey(systemRandom);
  const publicId = idMaker(systemClock, systemRandom)("key");
  return { secret, stored: { publicId, hash, prefix } };
}
