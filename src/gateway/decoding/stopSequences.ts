import { bearsContent, type Choice, type ChunkChoice } from "../../contract/chat/chatAnswer.ts";
import type { JsonFields } from "../../lib/json.ts";

/**
 * Searches one text, which arrives in pieces, for stop sequences. They must not be empty. The sequence that is complete
 * first ends the text, and the longest one if several are complete at once. The result does not depend on how the text is
 * split. The time is linear in the text for each sequence. Sequences are valid Unicode, so no surrogate pair is split.
 */
export class StopSequenceScanner {
  hasStopped = false;
  readonly #matchers: readonly Matcher[];
  /** The length of the text that is held back. It is the start of a sequence, so it is not stored. */
  #heldUnits = 0;

  constructor(sequences: readonly string[]) {
    this.#matchers = sequences.map((sequence) => new Matcher(sequence));
  }

  /** Returns the text that can be sent now. Holds back a possible start of a sequence, and drops text after a sequence. */
  push(piece: string): string {
    if (this.hasStopped) return "";
    const held = this.#held();
    const unitCount = held.length + piece.length;
    let hit: { readonly end: number; readonly unitCount: number } | undefined;
    for (const matcher of this.#matchers) {
      const end = matcher.find(piece, hit?.end ?? piece.length);
      if (end === undefined) continue;
      const isFirst = hit === undefined || end < hit.end || matcher.unitCount > hit.unitCount;
      if (isFirst) hit = { end, unitCount: matcher.unitCount };
    }
    this.hasStopped = hit !== undefined;
    const keptUnits = hit
      ? piece.length - hit.end + hit.unitCount
      : (longestOf(this.#matchers)?.matched ?? 0);
    // Text that was released before may be the start of this sequence. It is already sent.
    const visibleUnits = Math.max(0, unitCount - keptUnits);
    this.#heldUnits = hit ? 0 : unitCount - visibleUnits;
    if (visibleUnits <= held.length) return held.slice(0, visibleUnits);
    return held + piece.slice(0, visibleUnits - held.length);
  }

  /** Returns the held text, because something other than text follows, or the stream ends. */
  release(): string {
    const held = this.#held();
    this.#heldUnits = 0;
    return held;
  }

  #held(): string {
    const longest = longestOf(this.#matchers);
    if (longest === undefined || this.#heldUnits === 0) return "";
    return longest.sequence.slice(longest.matched - this.#heldUnits, longest.matched);
  }
}

/** The text before the first stop sequence. Undefined if there is none. */
export function truncateAtStop(text: string, sequences: readonly string[]): string | undefined {
  const scanner = new StopSequenceScanner(sequences);
  const visibleText = scanner.push(text);
  return scanner.hasStopped ? visibleText : undefined;
}

function longestOf(matchers: readonly Matcher[]): Matcher | undefined {
  let longest: Matcher | undefined;
  for (const matcher of matchers) {
    if (matcher.matched > (longest?.matched ?? 0)) longest = matcher;
  }
  return longest;
}

/** Finds one sequence with the Knuth-Morris-Pratt algorithm: https://doi.org/10.1137/0206024. Counts UTF-16 units. */
class Matcher {
  readonly sequence: string;
  /** The length of the sequence's prefix that the text ends with. */
  matched = 0;
  /** For each prefix length, the longest proper prefix that is also its suffix. Computed when needed. */
  readonly #borders: number[] = [0, 0];

  constructor(sequence: string) {
    this.sequence = sequence;
  }

  get unitCount(): number {
    return this.sequence.length;
  }

  /** Reads the next piece. Returns where in it the first match ends, at or before `limit`. */
  find(piece: string, limit: number): number | undefined {
    const { sequence } = this;
    for (let at = 0; at < limit; at++) {
      if (this.matched === 0) {
        at = piece.indexOf(sequence.charAt(0), at);
        if (at < 0 || at >= limit) return undefined;
      }
      const unit = piece.charCodeAt(at);
      while (this.matched > 0 && sequence.charCodeAt(this.matched) !== unit) {
        this.matched = this.#borderOf(this.matched);
      }
      if (sequence.charCodeAt(this.matched) === unit) this.matched += 1;
      if (this.matched === sequence.length) return at + 1;
    }
    return undefined;
  }

  #borderOf(length: number): number {
    const { sequence } = this;
    const borders = this.#borders;
    for (let next = borders.length; next <= length; next++) {
      const unit = sequence.charCodeAt(next - 1);
      let border = borders[next - 1] ?? 0;
      while (border > 0 && sequence.charCodeAt(border) !== unit) border = borders[border] ?? 0;
      borders.push(sequence.charCodeAt(border) === unit ? border + 1 : border);
    }
    return borders[length] ?? 0;
  }
}

/** The fields that may come before the text of an answer. All others come after it or instead of it. */
const FIELDS_BEFORE_TEXT = ["role", "reasoning_content", "reasoning"];

/**
 * Applies stop sequences to a stream, for providers whose interface has none. Everything that follows a sequence is
 * dropped. It is charged, because it was generated.
 */
export class ChatStops {
  readonly #sequences: readonly string[];
  readonly #scanners = new Map<number, StopSequenceScanner>();

  constructor(sequences: readonly string[]) {
    this.#sequences = sequences;
  }

  /** Returns the choices of a chunk for the client, with text that is no longer held back. */
  apply(choices: readonly ChunkChoice[]): readonly ChunkChoice[] {
    return choices.flatMap((choice) => this.#applyTo(choice));
  }

  /** Returns the text that is still held back, as choices. */
  release(): readonly ChunkChoice[] {
    return [...this.#scanners].flatMap(([index, scanner]) => {
      const text = scanner.release();
      return text === "" ? [] : [textChoice(index, { content: text })];
    });
  }

  #applyTo(choice: ChunkChoice): readonly ChunkChoice[] {
    const { index, delta, finish_reason } = choice;
    const scanner = this.#scannerOf(index);
    if (scanner.hasStopped) return [];
    const { content, ...others } = delta;
    const visibleText = content === undefined ? "" : scanner.push(content);
    if (scanner.hasStopped) {
      const before = {
        ...pickBefore(others),
        ...(visibleText === "" ? {} : { content: visibleText }),
      };
      const end: ChunkChoice = { index, delta: {}, finish_reason: "stop" };
      // Only the finish reason waits for the charge.
      return Object.keys(before).length > 0 ? [textChoice(index, before), end] : [end];
    }
    // If something other than text follows, the held text is not part of a sequence.
    const continues = finish_reason === null && !bearsContent({ delta: others, finish_reason });
    const text = continues ? visibleText : visibleText + scanner.release();
    if (text !== "" || content === "") return [{ ...choice, delta: { ...delta, content: text } }];
    if (content !== undefined && continues && Object.keys(others).length === 0) return [];
    return [{ ...choice, delta: others }];
  }

  #scannerOf(index: number): StopSequenceScanner {
    let scanner = this.#scanners.get(index);
    if (!scanner) {
      scanner = new StopSequenceScanner(this.#sequences);
      this.#scanners.set(index, scanner);
    }
    return scanner;
  }
}

/** Applies stop sequences to a complete choice. Keeps its reasoning. Drops calls and refusals, which come after the text. */
export function truncateChoice(choice: Choice, sequences: readonly string[]): Choice {
  const text = truncateAtStop(choice.message.content, sequences);
  if (text === undefined) return choice;
  const message = { ...pickBefore(choice.message), role: "assistant", content: text } as const;
  return { index: choice.index, finish_reason: "stop", message };
}

function textChoice(index: number, delta: ChunkChoice["delta"]): ChunkChoice {
  return { index, delta, finish_reason: null };
}

function pickBefore(message: JsonFields): Record<string, unknown> {
  const fields = FIELDS_BEFORE_TEXT.filter((field) => Object.hasOwn(message, field));
  return Object.fromEntries(fields.map((field) => [field, message[field]]));
}
