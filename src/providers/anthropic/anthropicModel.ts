/** `claude-opus-4-8` is opus 4.08. Names of the oldest models have no family before the version. */
interface Claude {
  readonly family: string | undefined;
  readonly version: number;
}

/** The first version of each family that accepts instructions between the turns. */
const LATE_INSTRUCTIONS_SINCE: ReadonlyMap<string | undefined, number> = new Map([
  ["opus", 4.08],
  ["fable", 5],
  ["mythos", 5],
  ["sonnet", 5.05],
  ["haiku", 5.05],
]);
/** The Mythos preview has no version in its name and reasons like this version. */
const PREVIEW_VERSION = 4.06;

/**
 * The version in a model's name as a comparable number: 4.06 for `claude-opus-4-6` and `claude-sonnet-4.6`, 3.07 for
 * `claude-3-7-sonnet-20250219`. Undefined without a version.
 */
export function versionOf(model: string): number | undefined {
  const version = claudeOf(model)?.version;
  if (version !== undefined) return version;
  return /claude-mythos/i.test(model) ? PREVIEW_VERSION : undefined;
}

/**
 * True if the model accepts system messages between the others:
 * https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages. For other models they are
 * an error and become text.
 */
export function supportsLateInstructions(model: string): boolean {
  const { family, version = 0 } = claudeOf(model) ?? {};
  return version >= (LATE_INSTRUCTIONS_SINCE.get(family) ?? Infinity);
}

function claudeOf(model: string): Claude | undefined {
  const name = /claude-(?:([a-z]+)-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/i.exec(model);
  if (!name) return undefined;
  const [, family, major, minor = 0] = name;
  return { family: family?.toLowerCase(), version: Number(major) + Number(minor) / 100 };
}
