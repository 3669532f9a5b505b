/**
 * Watches one text, as it comes in pieces, for the sequences at which it is to end, none of them empty. The one that is
 * complete first ends the text, as it would end a model that writes one character after the other; of several that are
 * complete at once, the longest. How the text is cut into pieces changes nothing. Takes time linear in the text for each
 * sequence, whatever they are. Sequences are valid Unicode, so no pair of surrogates that came whole is parted.
 */
export class StopWatch {
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
export function cutAtStop(text: string, sequences: readonly string[]): string | undefined {
  const watch = new StopWatch(sequences);
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
