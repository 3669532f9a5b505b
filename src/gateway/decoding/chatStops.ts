import { bearsContent, type Choice, type ChunkChoice } from "../../contract/chatAnswer.ts";
import type { JsonFields } from "../../lib/json.ts";
import { cutAtStop, StopWatch } from "./stopSequences.ts";

/** What may come before the text of an answer; everything else is said behind it, or instead of it. */
const FIELDS_BEFORE_TEXT = ["role", "reasoning_content", "reasoning"];

/**
 * Ends the choices of a stream at the client's stop sequences, where the provider's interface has none.
 * What the provider says behind a sequence is dropped, whatever it is: to the client it was never said.
 * It is billed all the same, for it was generated.
 */
export class ChatStops {
  readonly #sequences: readonly string[];
  readonly #watches = new Map<number, StopWatch>();

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

  #watchOf(index: number): StopWatch {
    let watch = this.#watches.get(index);
    if (!watch) {
      watch = new StopWatch(this.#sequences);
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
  const text = cutAtStop(choice.message.content, sequences);
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
