import { fieldsOf, type JsonFields } from "../../lib/json.ts";

/** The position of a reasoning block in an answer: text before it in UTF-16 units, and calls before it. */
export interface AnswerPosition {
  readonly characters: number;
  readonly calls: number;
}

/**
 * Adds the position to a reasoning block. A block at the start gets none, which is the form that other servers
 * expect.
 */
export function withPosition(block: JsonFields, after: AnswerPosition): JsonFields {
  return after.characters === 0 && after.calls === 0 ? block : { ...block, after };
}

/**
 * The blocks of a returned answer in their original order. The provider refuses reasoning in other positions and at
 * the end of an answer: if the answer would end with reasoning, all reasoning goes first.
 */
export function blocksInOrder(
  reasoning: readonly JsonFields[],
  text: string,
  calls: readonly JsonFields[],
): readonly JsonFields[] {
  const blocks: JsonFields[] = [];
  let characters = 0;
  let callCount = 0;
  for (const block of reasoning) {
    const after = positionOf(block);
    const end = characterBoundary(text, after.characters);
    blocks.push(...textBlock(text.slice(characters, end)));
    blocks.push(...calls.slice(callCount, after.calls), returnedReasoning(block));
    characters = Math.max(characters, end);
    callCount = Math.max(callCount, after.calls);
  }
  const rest = [...textBlock(text.slice(characters)), ...calls.slice(callCount)];
  if (rest.length > 0) return [...blocks, ...rest];
  return [...reasoning.map(returnedReasoning), ...textBlock(text), ...calls];
}

/** A text block; none for a blank text, which the interface refuses. */
export function textBlock(text: string, cache: JsonFields = {}): readonly JsonFields[] {
  return text.trim() === "" ? [] : [{ type: "text", text, ...cache }];
}

/** A reasoning block with only the provider's own fields. */
export function returnedReasoning({ type, thinking, signature, data }: JsonFields): JsonFields {
  return type === "thinking" ? { type, thinking, signature } : { type, data };
}

/** A client may have trimmed the text, so the position may be within a surrogate pair. Moves it before the pair. */
function characterBoundary(text: string, end: number): number {
  const isWithinPair = /[\uD800-\uDBFF]/.test(text.charAt(end - 1));
  return isWithinPair ? end - 1 : end;
}

/** The position in a returned block; the start, if a client changed the field. */
function positionOf({ after }: JsonFields): AnswerPosition {
  const { characters, calls } = fieldsOf(after);
  return isCount(characters) && isCount(calls)
    ? { characters, calls }
    : { characters: 0, calls: 0 };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
