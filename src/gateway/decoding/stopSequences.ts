import { bearsContent, type Choice, type ChunkChoice } from "../../contract/chat/chatAnswer.ts";
import type { JsonFields } from "../../lib/json.ts";

/**
 * Watches one text, as it comes in pieces, for the sequences at which it is to end, none of them empty. The one that is
 * complete first ends the text, as it would end a model that writes one character after the other; of several that are
 * complete at once, the longest. How the text is cut into pieces changes nothing. Takes time linear in the text for each
 * sequence, whatever they are. Sequences are valid Unicode, so no pair of surrogates that came whole is parted.
 */
export class StopSequenceScanner {
  /** A sequence has come. */
  hasStopped = false;
  readonly #matchers: readonly Matcher[];
  /** How much of the end of the text is kept back. It is the beginning of a sequence, and need not be stored. */
  #heldUnits = 0;

  constructor(sequences: readonly string[]) {
    this.#matchers = sequences.map((sequence) => new Matcher(sequence));
  }

  /**
   * What of the text so far may be shown now. What could be the beginning of a sequence is kept back;
   * behind a whole one there is nothing more to show.
   */
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
    // What was released may have been the beginning of a sequence all the same: that is out.
    const shownUnits = Math.max(0, unitCount - keptUnits);
    this.#heldUnits = hit ? 0 : unitCount - shownUnits;
    if (shownUnits <= held.length) return held.slice(0, shownUnits);
    return held + piece.slice(0, shownUnits - held.length);
  }

  /** The text that is kept back: something else comes now, or nothing. */
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

/** The text before the first stop sequence; undefined where it has none. */
export function truncateAtStop(text: string, sequences: readonly string[]): string | undefined {
  const watch = new StopSequenceScanner(sequences);
  const shown = watch.push(text);
  return watch.hasStopped ? shown : undefined;
}

/** The matcher that has the most of its sequence. */
function longestOf(matchers: readonly Matcher[]): Matcher | undefined {
  let longest: Matcher | undefined;
  for (const matcher of matchers) {
    if (matcher.matched > (longest?.matched ?? 0)) longest = matcher;
  }
  return longest;
}

/** Finds one sequence by the method of Knuth, Morris and Pratt: https://doi.org/10.1137/0206024. Counts UTF-16 units. */
class Matcher {
  readonly sequence: string;
  /** So much of the sequence's beginning is the end of the text. */
  matched = 0;
  /** By the length of a beginning, how much of it is its own end too. Only as far as the text has needed it. */
  readonly #borders: number[] = [0, 0];

  constructor(sequence: string) {
    this.sequence = sequence;
  }

  get unitCount(): number {
    return this.sequence.length;
  }

  /** Reads on in the text; gives where in the piece, before or at `limit`, the first match ends. */
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

/** What may come before the text of an answer; everything else is said behind it, or instead of it. */
const FIELDS_BEFORE_TEXT = ["role", "reasoning_content", "reasoning"];

/**
 * Ends the choices of a stream at the client's stop sequences, where the provider's interface has none.
 * What the provider says behind a sequence is dropped, whatever it is: to the client it was never said.
 * It is billed all the same, for it was generated.
 */
export class ChatStops {
  readonly #sequences: readonly string[];
  readonly #watches = new Map<number, StopSequenceScanner>();

  constructor(sequences: readonly string[]) {
    this.#sequences = sequences;
  }

  /** The choices of a chunk as the client may see them: without what is dropped or kept back, with what no longer is. */
  apply(choices: readonly ChunkChoice[]): readonly ChunkChoice[] {
    return choices.flatMap((choice) => this.#applyTo(choice));
  }

  /** The texts that were kept back in choices that came to no end. */
  release(): readonly ChunkChoice[] {
    return [...this.#watches].flatMap(([index, watch]) => {
      const text = watch.release();
      return text === "" ? [] : [textChoice(index, { content: text })];
    });
  }

  #applyTo(choice: ChunkChoice): readonly ChunkChoice[] {
    const { index, delta, finish_reason } = choice;
    const watch = this.#watchOf(index);
    if (watch.hasStopped) return [];
    const { content, ...others } = delta;
    const shown = content === undefined ? "" : watch.push(content);
    if (watch.hasStopped) {
      const before = { ...pickBefore(others), ...(shown === "" ? {} : { content: shown }) };
      const end: ChunkChoice = { index, delta: {}, finish_reason: "stop" };
      // What came before need not wait for the charge; only the finish reason does.
      return Object.keys(before).length > 0 ? [textChoice(index, before), end] : [end];
    }
    // The text goes on no further if something else comes: then it is no part of a sequence.
    const goesOn = finish_reason === null && !bearsContent({ delta: others, finish_reason });
    const text = goesOn ? shown : shown + watch.release();
    if (text !== "" || content === "") return [{ ...choice, delta: { ...delta, content: text } }];
    if (content !== undefined && goesOn && Object.keys(others).length === 0) return [];
    return [{ ...choice, delta: others }];
  }

  #watchOf(index: number): StopSequenceScanner {
    let watch = this.#watches.get(index);
    if (!watch) {
      watch = new StopSequenceScanner(this.#sequences);
      this.#watches.set(index, watch);
    }
    return watch;
  }
}

/**
 * A whole choice as it is with the stop sequences kept. Nothing tells what was said before the text and
 * what behind it: reasoning counts as before, calls and refusals as behind.
 */
export function stopped(choice: Choice, sequences: readonly string[]): Choice {
  const text = truncateAtStop(choice.message.content, sequences);
  if (text === undefined) return choice;
  const message = { ...pickBefore(choice.message), role: "assistant", content: text } as const;
  return { index: choice.index, finish_reason: "stop", message };
}

function textChoice(index: number, delta: ChunkChoice["delta"]): ChunkChoice {
  return { index, delta, finish_reason: null };
}

function pickBefore(said: JsonFields): Record<string, unknown> {
  const fields = FIELDS_BEFORE_TEXT.filter((field) => Object.hasOwn(said, field));
  return Object.fromEntries(fields.map((field) => [field, said[field]]));
}
