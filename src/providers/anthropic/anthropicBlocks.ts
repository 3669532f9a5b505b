import { fieldsOf, type JsonFields } from "../../lib/json.ts";

/** How much of an answer stood before one of its thoughts: characters of its text, in UTF-16 units, and calls. */
export interface AnswerPosition {
  readonly characters: number;
  readonly calls: number;
}

/**
 * A thought as it is given out: in a list beside the text and the calls, with its place among them. One that stood
 * before all else has no field of ours, for that is what every server expects.
 */
export function withPosition(thought: JsonFields, after: AnswerPosition): JsonFields {
  return after.characters === 0 && after.calls === 0 ? thought : { ...thought, after };
}

/**
 * The blocks of an answer that is sent back, as they stood. The provider refuses thoughts elsewhere than they were, and
 * at the end of an answer: if it would end in a thought, all thoughts come first. `thoughts` are as they were given
 * out.
 */
export function blocksInOrder(
  thoughts: readonly JsonFields[],
  text: string,
  calls: readonly JsonFields[],
): readonly JsonFields[] {
  const blocks: JsonFields[] = [];
  let characters = 0;
  let called = 0;
  for (const thought of thoughts) {
    const after = positionOf(thought);
    const end = wholeUpTo(text, after.characters);
    blocks.push(...textBlock(text.slice(characters, end)));
    blocks.push(...calls.slice(called, after.calls), thinkingBlock(thought));
    characters = Math.max(characters, end);
    called = Math.max(called, after.calls);
  }
  const rest = [...textBlock(text.slice(characters)), ...calls.slice(called)];
  if (rest.length > 0) return [...blocks, ...rest];
  return [...thoughts.map(thinkingBlock), ...textBlock(text), ...calls];
}

/** A text as blocks: none for a blank one, which the interface refuses. */
export function textBlock(text: string, cache: JsonFields = {}): readonly JsonFields[] {
  return text.trim() === "" ? [] : [{ type: "text", text, ...cache }];
}

/** A thought as the provider takes it back, without what else stands in what was given out. */
export function thinkingBlock({ type, thinking, signature, data }: JsonFields): JsonFields {
  return type === "thinking" ? { type, thinking, signature } : { type, data };
}

/** Never between the two halves of a character: the client may have changed the text since. */
function wholeUpTo(text: string, end: number): number {
  const isHalf = /[\uD800-\uDBFF]/.test(text.charAt(end - 1));
  return isHalf ? end - 1 : end;
}

/** What a client wrote over it is no place. */
function positionOf({ after }: JsonFields): AnswerPosition {
  const { characters, calls } = fieldsOf(after);
  return isCount(characters) && isCount(calls)
    ? { characters, calls }
    : { characters: 0, calls: 0 };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
