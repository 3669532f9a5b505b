import { isJsonObject, type JsonFields } from "../../../lib/json.ts";
import { answerText } from "../../../providers/provider.ts";
import type { ReturnedFields } from "./encryptedContent.ts";

/** Keys of reasoning details whose pieces of a stream are joined: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens */
const DETAIL_TEXTS = ["text", "summary", "data", "signature"] as const;

/** Collects from the deltas of an answer what its provider needs back. */
export class ReturnedContent {
  #blocks: readonly unknown[] | undefined;
  readonly #details: Record<string, unknown>[] = [];
  #extra: JsonFields | undefined;
  readonly #calls = new Map<string, JsonFields>();

  /** Undefined if there is nothing to return. */
  get fields(): ReturnedFields | undefined {
    const fields: ReturnedFields = {
      ...(this.#blocks && { thinking_blocks: this.#blocks }),
      ...(this.#details.length > 0 && { reasoning_details: this.#details }),
      ...(this.#extra && { extra_content: this.#extra }),
      ...(this.#calls.size > 0 && { calls: Object.fromEntries(this.#calls) }),
    };
    return Object.keys(fields).length > 0 ? fields : undefined;
  }

  /** Adds the fields of a delta. Returns the characters that are kept. */
  add({
    thinking_blocks: blocks,
    reasoning_details: details,
    extra_content: extra,
  }: JsonFields): number {
    let characters = 0;
    if (Array.isArray(blocks) && blocks.length > 0) {
      // One list at the end of the answer has them all.
      this.#blocks = blocks as readonly unknown[];
      characters += answerText(blocks).length;
    }
    if (isJsonObject(extra)) {
      this.#extra = extra;
      characters += answerText(extra).length;
    }
    if (Array.isArray(details)) {
      for (const detail of details.filter(isJsonObject)) this.#addDetail(detail);
      characters += answerText(details).length;
    }
    return characters;
  }

  /** Adds the field of a call. Returns the characters that are kept. */
  addToCall(callId: string, extra: unknown): number {
    if (!isJsonObject(extra)) return 0;
    this.#calls.set(callId, extra);
    return answerText(extra).length;
  }

  #addDetail(detail: JsonFields): void {
    const last = this.#details.at(-1);
    const { type, index } = detail;
    if (last?.["type"] !== type || index === undefined || last?.["index"] !== index) {
      this.#details.push({ ...detail });
      return;
    }
    for (const [name, value] of Object.entries(detail)) {
      const isJoined = DETAIL_TEXTS.some((text) => text === name);
      const before = last[name];
      if (isJoined && typeof before === "string" && typeof value === "string") {
        last[name] = before + value;
      } else if (value !== null) last[name] = value;
    }
  }
}
