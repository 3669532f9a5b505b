import { fieldsOf, isJsonObject, type JsonFields } from "../../../lib/json.ts";
import { ANSWER_BYTES_MAX, answerText, ExcessiveAnswerError } from "../../../providers/provider.ts";
import { ObjectScanner } from "../../decoding/objectScanner.ts";
import { TRANSLATED_SIGNATURE } from "./translatedThinking.ts";

/** A piece of an answer. The first piece of a call has its id and its name. */
type Piece =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "thinking"; readonly text: string }
  | {
      readonly type: "tool_use";
      /** The index of the call among the calls of the answer. */
      readonly index: number;
      readonly id: unknown;
      readonly name: unknown;
      readonly text: string;
    };

/** The block of a stream that is not closed yet. */
interface OpenBlock {
  readonly type: Piece["type"];
  /** The index of a call among the calls of the answer. */
  readonly call: number | undefined;
  readonly scanner: ObjectScanner;
}

/** The size that a piece has besides its text. */
const PIECE_CHARACTERS = 128;

/** The pieces of a block that waits for those before it. */
type WaitingBlock = Piece[];

/**
 * The content blocks of a streamed message. Blocks follow each other, but the parts of parallel calls may come mixed. So what
 * does not belong to the open call waits until the arguments of that call are a whole object, or the answer ends.
 */
export class StreamedBlocks {
  #blockCount = 0;
  #open: OpenBlock | undefined;
  /** The last call whose block was opened. */
  #lastCall = -1;
  /** Blocks that wait, oldest first. */
  readonly #waiting = new Set<WaitingBlock>();
  readonly #waitingCalls = new Map<number, WaitingBlock>();
  #lastWaiting: WaitingBlock | undefined;
  #waitingCharacters = 0;

  /** Returns the events for a delta whose calls are in their one form. Throws ExcessiveAnswerError if too much waits. */
  add(delta: JsonFields): string {
    let events = "";
    for (const piece of piecesOf(delta)) events += this.#put(piece) + this.#release();
    return events;
  }

  /** Returns the events for all that waits, and closes the last block. */
  end(): string {
    let events = "";
    for (const block of this.#waiting) events += this.#close() + this.#show(block);
    return events + this.#close();
  }

  #put(piece: Piece): string {
    const isFree = !this.#isUnfinished && this.#waiting.size === 0;
    if (isFree || this.#isOpen(piece) || this.#isExcess(piece)) return this.#write(piece);
    this.#waitingCharacters += piece.text.length + PIECE_CHARACTERS;
    if (this.#waitingCharacters > ANSWER_BYTES_MAX)
      throw new ExcessiveAnswerError("the answer is too long");
    this.#waitingBlockOf(piece).push(piece);
    return "";
  }

  /** A call has one block. Other pieces continue the last block if it is of their type. */
  #waitingBlockOf(piece: Piece): WaitingBlock {
    const isCall = piece.type === "tool_use";
    const last = this.#lastWaiting?.[0]?.type === piece.type ? this.#lastWaiting : undefined;
    const known = isCall ? this.#waitingCalls.get(piece.index) : last;
    if (known) return known;
    const block: WaitingBlock = [];
    this.#waiting.add(block);
    this.#lastWaiting = block;
    if (isCall) this.#waitingCalls.set(piece.index, block);
    return block;
  }

  #release(): string {
    let events = "";
    for (const block of this.#waiting) {
      if (this.#isUnfinished) break;
      events += this.#show(block);
    }
    return events;
  }

  #show(block: WaitingBlock): string {
    this.#waiting.delete(block);
    if (this.#lastWaiting === block) this.#lastWaiting = undefined;
    let events = "";
    for (const piece of block) {
      this.#waitingCharacters -= piece.text.length + PIECE_CHARACTERS;
      events += this.#write(piece);
    }
    return events;
  }

  /** Whether a part comes after the whole arguments of its call. It would break them. */
  #isExcess(piece: Piece): boolean {
    if (piece.type !== "tool_use" || piece.index > this.#lastCall) return false;
    return !this.#isOpen(piece) || !this.#isUnfinished;
  }

  get #isUnfinished(): boolean {
    return this.#open?.type === "tool_use" && !this.#open.scanner.isComplete;
  }

  #isOpen(piece: Piece): boolean {
    if (piece.type !== this.#open?.type) return false;
    return piece.type !== "tool_use" || piece.index === this.#open.call;
  }

  #write(piece: Piece): string {
    if (this.#isExcess(piece)) return "";
    const events = this.#isOpen(piece) ? "" : this.#close() + this.#begin(piece);
    const { type, text } = piece;
    if (text === "") return events;
    if (type === "text") return events + this.#delta({ type: "text_delta", text });
    if (type === "thinking")
      return events + this.#delta({ type: "thinking_delta", thinking: text });
    this.#open?.scanner.push(text);
    return events + this.#delta({ type: "input_json_delta", partial_json: text });
  }

  #begin(piece: Piece): string {
    const call = piece.type === "tool_use" ? piece.index : undefined;
    this.#open = { type: piece.type, call, scanner: new ObjectScanner() };
    this.#lastCall = call ?? this.#lastCall;
    return event("content_block_start", {
      index: this.#blockCount,
      content_block: emptyBlockOf(piece),
    });
  }

  #close(): string {
    if (!this.#open) return "";
    const isReasoning = this.#open.type === "thinking";
    const signature = { type: "signature_delta", signature: TRANSLATED_SIGNATURE };
    const signed = isReasoning ? this.#delta(signature) : "";
    this.#open = undefined;
    return signed + event("content_block_stop", { index: this.#blockCount++ });
  }

  #delta(delta: JsonFields): string {
    return event("content_block_delta", { index: this.#blockCount, delta });
  }
}

/** An event of a stream of Messages. */
export function event(type: string, fields: JsonFields): string {
  return `event: ${type}\ndata: ${answerText({ type, ...fields })}\n\n`;
}

function emptyBlockOf(piece: Piece): JsonFields {
  if (piece.type === "text") return { type: "text", text: "" };
  if (piece.type === "thinking") return { type: "thinking", thinking: "", signature: "" };
  return { type: "tool_use", id: piece.id, name: piece.name, input: {} };
}

/** The pieces of a delta, or of a whole message, in the order of blocks. */
export function piecesOf(delta: JsonFields): readonly Piece[] {
  const thinking = reasoningOf(delta);
  const text = textOf(delta);
  return [
    ...(thinking === "" ? [] : [{ type: "thinking", text: thinking } as const]),
    ...(text === "" ? [] : [{ type: "text", text } as const]),
    ...callsOf(delta),
  ];
}

/** Some servers use the second name. */
function reasoningOf({ reasoning_content: first, reasoning: second }: JsonFields): string {
  if (typeof first === "string" && first !== "") return first;
  return typeof second === "string" ? second : "";
}

/** The text, a refusal, and images, for which a message has no block, as Markdown. */
function textOf({ content, refusal, images }: JsonFields): string {
  const texts = [content, refusal].filter((text) => typeof text === "string");
  for (const image of Array.isArray(images) ? (images as unknown[]) : []) {
    const { url } = fieldsOf(fieldsOf(image)["image_url"]);
    if (typeof url === "string") texts.push(`![image](${url})`);
  }
  return texts.join("");
}

/** A whole message has its calls in their order. */
function callsOf({ tool_calls: calls }: JsonFields): readonly Piece[] {
  return (Array.isArray(calls) ? calls.filter(isJsonObject) : []).map((call, position) => {
    const { index = position, id } = call;
    const { name, arguments: text } = fieldsOf(call["function"]);
    const argumentsText = typeof text === "string" ? text : "";
    return { type: "tool_use", index: Number(index), id, name, text: argumentsText } as const;
  });
}
