import { Option, type Command } from "commander";
import { graceDuration, KEY_ID_DESCRIPTION, keyId } from "./arguments.ts";
import { issuedKey } from "./keyShown.ts";
import { newKey } from "./newKey.ts";
import type { Result } from "./print.ts";
import { withSession, type Session } from "./session.ts";
import { shortTime } from "./times.ts";

interface RotateOptions {
  readonly grace: number;
}

const GRACE_DEFAULT = "24h";

/** Registers `tollgate keys rotate`. */
export function addKeyRotation(keys: Command): void {
  keys
    .command("rotate")
    .summary("issue a key with the same settings in place of one, shown this once")
    .description(
      "Issues a key with the same settings in place of one, shown this once. The old one works for the grace period. " +
        "Both have one budget between them, and what was spent is carried over; each has rate limits of its own, " +
        "which are fresh for the new one.",
    )
    .argument("<id>", KEY_ID_DESCRIPTION, keyId)
    .addOption(
      new Option("--grace <time>", "how long the old key still works: 24h, 7d; 0s = no more")
        .argParser(graceDuration)
        .default(graceDuration(GRACE_DEFAULT), GRACE_DEFAULT),
    )
    .action((id: string, options: RotateOptions, command: Command) =>
      withSession(command, "existing", (session) => rotate(session, id, options.grace)),
    );
}

function rotate(session: Session, replaces: string, graceMs: number): Result {
  const { store, actor } = session;
  const { secret, kept: successor } = newKey();
  const { key, replacedUntil } = store.admin.rotateKey(actor, replaces, { successor, graceMs });
  const fate =
    replacedUntil <= actor.at ? "works no more" : `works until ${shortTime(replacedUntil)}`;
  const { document, text } = issuedKey(session, key, secret, [`${replaces} ${fate}`]);
  return { document: { ...document, created_account: false, replaces }, text };
}
