/** A model of Anthropic's by its name: `opus`, 4.08 of `claude-opus-4-8`. The names of the oldest tell no family first. */
interface Claude {
  readonly family: string | undefined;
  readonly version: number;
}

/** From when on a family takes instructions between the turns. */
const LATE_INSTRUCTIONS_SINCE: ReadonlyMap<string | undefined, number> = new Map([
  ["opus", 4.08],
  ["fable", 5],
  ["mythos", 5],
  ["sonnet", 5.05],
  ["haiku", 5.05],
]);
/** The preview of Mythos, whose name tells no version, is asked to think as this one is. */
const PREVIEW_VERSION = 4.06;

/**
 * The version in a model's name as a number to compare: 4.06 for `claude-opus-4-6`, `claude-sonnet-4.6` or
 * `claude-3-7-sonnet-20250219`, where the day of its release is none; undefined where there is none.
 */
export function versionOf(model: string): number | undefined {
  const version = claudeOf(model)?.version;
  if (version !== undefined) return version;
  return /claude-mythos/i.test(model) ? PREVIEW_VERSION : undefined;
}

/**
 * The model takes instructions as messages between the others, in their own place:
 * https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages. To all others
 * they would be an error; they are given them as a text.
 */
export function takesLateInstructions(model: string): boolean {
  const { family, version = 0 } = claudeOf(model) ?? {};
  return version >= (LATE_INSTRUCTIONS_SINCE.get(family) ?? Infinity);
}

function claudeOf(model: string): Claude | undefined {
  const name = /claude-(?:([a-z]+)-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/i.exec(model);
  if (!name) return undefined;
  const [, family, major, minor = 0] = name;
  return { family: family?.toLowerCase(), version: Number(major) + Number(minor) / 100 };
}
