import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { bytesOfString } from "../../lib/outline.ts";
import { addSize, measureText, noText, sizeOfPart, type Sum, type TextSize } from "../textSize.ts";

/** The sizes of a Messages request, for estimates. */
export interface MessagesMeasure {
  readonly messageCount: number;
  /** All that the model reads: instructions, messages and definitions of tools. */
  readonly promptSize: TextSize;
}

/** Top-level fields that hold text which no model reads. */
const SETTINGS: ReadonlySet<string> = new Set([
  "cache_control",
  "compaction",
  "context_management",
  "diagnostics",
  "inference_geo",
  "max_tokens",
  "messages",
  "metadata",
  "model",
  "service_tier",
  "stream",
  "system",
  "thinking",
  "tool_choice",
]);

/** Fields of blocks that describe them. The model does not read them as text. */
const ENVELOPE: ReadonlySet<string> = new Set([
  "type",
  "cache_control",
  "citations",
  "data",
  "encrypted_content",
  "id",
  "is_error",
  "signature",
  "tool_use_id",
]);

/** Measures a checked body. A part that is not text counts as one part, whatever its bytes. */
export function measureMessages(body: JsonFields): MessagesMeasure {
  const sum = new PromptSum();
  sum.addContent(body["system"]);
  const messages: readonly unknown[] = Array.isArray(body["messages"]) ? body["messages"] : [];
  for (const message of messages) if (isJsonObject(message)) sum.addContent(message["content"]);
  for (const name in body) if (!SETTINGS.has(name)) sum.addValue(body[name]);
  return { messageCount: messages.length, promptSize: sum.size };
}

/** A running total. Clients choose the nesting depth of results in results, so open contents are on an explicit stack. */
class PromptSum {
  readonly size: Sum = { ...noText };

  addContent(content: unknown): void {
    const open: unknown[] = [content];
    while (open.length > 0) {
      const next = open.pop();
      if (typeof next === "string") this.size.textBytes += bytesOfString(next);
      else if (Array.isArray(next)) for (const block of next as unknown[]) open.push(block);
      else if (isJsonObject(next)) for (const inner of this.#addBlock(next)) open.push(inner);
    }
  }

  addValue(value: unknown): void {
    this.size.textBytes += measureText(value).textBytes;
  }

  #addAttachment(part: JsonFields): void {
    addSize(this.size, sizeOfPart(part));
  }

  /** Returns the contents in the block. */
  #addBlock(block: JsonFields): readonly unknown[] {
    const { type, source } = block;
    if (type === "document" && isJsonObject(source)) {
      const { type: sourceType, data, content } = source;
      const isText = sourceType === "text" || sourceType === "content";
      if (!isText) this.#addAttachment(block);
      const inner = sourceType === "text" ? data : content;
      return [isText ? inner : undefined, block["title"], block["context"]];
    }
    if (type === "image" || type === "container_upload") {
      this.#addAttachment(block);
      return [];
    }
    const inner: unknown[] = [];
    for (const name in block) {
      if (ENVELOPE.has(name)) continue;
      const value = block[name];
      // Compatible servers have such parts beside images, for example videos.
      if (name === "source" && isJsonObject(value)) this.#addAttachment(block);
      else if (name === "content" || typeof value === "string") inner.push(value);
      else this.addValue(value);
    }
    return inner;
  }
}
