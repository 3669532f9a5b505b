import type { JsonFields } from "../../../lib/json.ts";
import { answerText } from "../../../providers/provider.ts";
import { encryptedContentOf } from "./encryptedContent.ts";

export type ItemStatus = "completed" | "incomplete";

export type Emit = (type: string, fields: JsonFields) => void;

/** An item of the output. It is kept until the last event, which repeats all items. */
export interface Item {
  readonly index: number;
  readonly id: string;
  /** Sends the last events of the item and returns it as a whole. */
  end(status: ItemStatus): JsonFields;
}

/** What every item is made with. */
export interface ItemOptions {
  readonly index: number;
  readonly id: string;
  readonly emit: Emit;
}

/** A reasoning item. The reasoning of a chat is one text; it becomes the summary of the item. */
export class ReasoningItem implements Item {
  readonly index: number;
  readonly id: string;
  readonly #emit: Emit;
  readonly #wantsEncrypted: boolean;
  #text = "";

  constructor({ index, id, emit, wantsEncrypted }: ItemOptions & { wantsEncrypted: boolean }) {
    this.index = index;
    this.id = id;
    this.#emit = emit;
    this.#wantsEncrypted = wantsEncrypted;
    emit("response.output_item.added", { output_index: index, item: this.#item([]) });
    emit("response.reasoning_summary_part.added", { ...this.#at(), part: summaryPart("") });
  }

  add(delta: string): void {
    this.#text += delta;
    this.#emit("response.reasoning_summary_text.delta", { ...this.#at(), delta });
  }

  end(status: ItemStatus): JsonFields {
    const part = summaryPart(this.#text);
    this.#emit("response.reasoning_summary_text.done", { ...this.#at(), text: this.#text });
    this.#emit("response.reasoning_summary_part.done", { ...this.#at(), part });
    return { ...this.#item([part]), ...(status === "incomplete" && { status }) };
  }

  /** The empty encrypted content says that the summary is the whole reasoning, which the provider gets back. */
  #item(summary: readonly object[]): JsonFields {
    const encrypted = this.#wantsEncrypted ? { encrypted_content: encryptedContentOf({}) } : {};
    return { id: this.id, type: "reasoning", summary, ...encrypted };
  }

  #at(): JsonFields {
    return { item_id: this.id, output_index: this.index, summary_index: 0 };
  }
}

function summaryPart(text: string): JsonFields {
  return { type: "summary_text", text };
}

/** A part of a message: a text with its citations, or a refusal. */
interface MessagePart {
  readonly type: "output_text" | "refusal";
  text: string;
  readonly annotations: JsonFields[];
  readonly logprobs: JsonFields[];
}

/** The text and the refusals of an answer. */
export class MessageItem implements Item {
  readonly index: number;
  readonly id: string;
  readonly #emit: Emit;
  readonly #parts: MessagePart[] = [];
  #hasEnded = false;

  constructor({ index, id, emit }: ItemOptions) {
    this.index = index;
    this.id = id;
    this.#emit = emit;
    const item = { id, type: "message", status: "in_progress", role: "assistant", content: [] };
    emit("response.output_item.added", { output_index: index, item });
  }

  addText(delta: string, logprobs: readonly JsonFields[]): void {
    const part = this.#open("output_text");
    part.text += delta;
    for (const token of logprobs) part.logprobs.push(token);
    this.#emit("response.output_text.delta", { ...this.#at(), delta, logprobs });
  }

  addRefusal(delta: string): void {
    this.#open("refusal").text += delta;
    this.#emit("response.refusal.delta", { ...this.#at(), delta });
  }

  /** Adds a citation and returns its characters. A part that has ended gets it without an event. */
  cite(annotation: JsonFields): number {
    const known = this.#parts.findLast(({ type }) => type === "output_text");
    const part = known ?? this.#open("output_text");
    const index = part.annotations.push(annotation) - 1;
    if (!this.#hasEnded && part === this.#parts.at(-1)) {
      const fields = { ...this.#at(), annotation_index: index, annotation };
      this.#emit("response.output_text.annotation.added", fields);
    }
    return answerText(annotation).length;
  }

  end(status: ItemStatus): JsonFields {
    this.#endPart();
    this.#hasEnded = true;
    const content = this.#parts.map(publicPart);
    return { id: this.id, type: "message", status, role: "assistant", content };
  }

  #open(type: MessagePart["type"]): MessagePart {
    const last = this.#parts.at(-1);
    if (last?.type === type) return last;
    this.#endPart();
    const part: MessagePart = { type, text: "", annotations: [], logprobs: [] };
    this.#parts.push(part);
    this.#emit("response.content_part.added", { ...this.#at(), part: publicPart(part) });
    return part;
  }

  #endPart(): void {
    const part = this.#parts.at(-1);
    if (!part) return;
    const { type, text, logprobs } = part;
    if (type === "refusal") this.#emit("response.refusal.done", { ...this.#at(), refusal: text });
    else this.#emit("response.output_text.done", { ...this.#at(), text, logprobs });
    this.#emit("response.content_part.done", { ...this.#at(), part: publicPart(part) });
  }

  /** The position of the last part. */
  #at(): JsonFields {
    const contentIndex = this.#parts.length - 1;
    return { item_id: this.id, output_index: this.index, content_index: contentIndex };
  }
}

function publicPart({ type, text, annotations, logprobs }: MessagePart): JsonFields {
  return type === "refusal" ? { type, refusal: text } : { type, text, annotations, logprobs };
}
