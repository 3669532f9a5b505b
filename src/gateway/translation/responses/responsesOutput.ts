import { fieldsOf, isJsonObject, type JsonFields } from "../../../lib/json.ts";
import {
  ANSWER_BYTES_MAX,
  answerText,
  ExcessiveAnswerError,
  IsolatedFailureError,
} from "../../../providers/provider.ts";
import { CALL_PREFIXES, CallItem } from "./callItems.ts";
import { encryptedContentOf } from "./encryptedContent.ts";
import { ReturnedContent } from "./returnedContent.ts";
import type { ResponsesSettings } from "./responsesSettings.ts";
import { MessageItem, ReasoningItem, type Emit, type Item, type ItemStatus } from "./textItems.ts";

/** The size that an item has besides its texts. */
const ITEM_CHARACTERS = 256;

/**
 * Makes the items of a response from the deltas of one chat answer, and sends their events. At any time at most one text,
 * refusal or reasoning is open. Calls stay open until the end, because a chat may continue any of them.
 */
export class ResponsesOutput {
  readonly #idOf: (prefix: string, index: number) => string;
  readonly #settings: ResponsesSettings;
  readonly #emit: Emit;
  /** By output index: finished items, and undefined for open ones. */
  readonly #finished: (JsonFields | undefined)[] = [];
  #reasoning: ReasoningItem | undefined;
  #message: MessageItem | undefined;
  /** The last message, also after its end: citations may come late. */
  #lastMessage: MessageItem | undefined;
  /** By the index that the calls have in the chat. */
  readonly #calls = new Map<unknown, CallItem>();
  readonly #returned = new ReturnedContent();
  #characters = 0;

  constructor(options: {
    idOf: (prefix: string, index: number) => string;
    settings: ResponsesSettings;
    emit: Emit;
  }) {
    this.#idOf = options.idOf;
    this.#settings = options.settings;
    this.#emit = options.emit;
  }

  /** Adds a delta of the chat, or a whole message. `logprobs` are those of the choice. */
  add(delta: JsonFields, logprobs: unknown): void {
    const { content, refusal, reasoning_content: reasoning = delta["reasoning"] } = delta;
    if (isText(reasoning)) this.#openReasoning().add(this.#counted(reasoning));
    if (isText(content)) {
      this.#openMessage().addText(this.#counted(content), this.#logprobsIn(logprobs));
    }
    if (isText(refusal)) this.#openMessage().addRefusal(this.#counted(refusal));
    for (const annotation of listOf(delta["annotations"])) this.#cite(annotation);
    for (const image of listOf(delta["images"]))
      this.#addImage(fieldsOf(image["image_url"])["url"]);
    for (const [position, call] of listOf(delta["tool_calls"]).entries())
      this.#addToCall(call, call["index"] ?? position);
    if (this.#settings.wantsEncrypted) this.#characters += this.#returned.add(delta);
  }

  /** Throws ExcessiveAnswerError if the items are larger than a JSON answer may be. */
  refuseExcess(): void {
    if (this.#characters > ANSWER_BYTES_MAX)
      throw new ExcessiveAnswerError("the answer is too long");
  }

  /** Ends all items and returns them. Of an incomplete answer only the last item is incomplete. */
  end(status: ItemStatus): readonly JsonFields[] {
    const last = this.#finished.length - 1;
    const open = [this.#reasoning, this.#message, ...this.#calls.values()].filter(
      (item) => item !== undefined,
    );
    for (const item of open.toSorted((one, other) => one.index - other.index)) {
      this.#finish(item, item.index === last ? status : "completed");
    }
    this.#addReturned();
    return this.#finished.filter((item) => item !== undefined);
  }

  /** An item without a text, because the provider's data is complete only at the end of the answer. */
  #addReturned(): void {
    const { fields } = this.#returned;
    if (fields === undefined) return;
    const { index, id } = this.#next("rs");
    const encrypted = encryptedContentOf(fields);
    const item = { id, type: "reasoning", summary: [], encrypted_content: encrypted };
    this.#emit("response.output_item.added", { output_index: index, item });
    this.#finish({ index, id, end: () => item }, "completed");
  }

  #openReasoning(): ReasoningItem {
    if (this.#reasoning) return this.#reasoning;
    this.#endMessage();
    const { wantsEncrypted } = this.#settings;
    const item = new ReasoningItem({ ...this.#next("rs"), emit: this.#emit, wantsEncrypted });
    return (this.#reasoning = item);
  }

  #openMessage(): MessageItem {
    if (this.#reasoning) this.#finish(this.#reasoning, "completed");
    this.#reasoning = undefined;
    this.#message ??= new MessageItem({ ...this.#next("msg"), emit: this.#emit });
    return (this.#lastMessage = this.#message);
  }

  #endMessage(): void {
    if (this.#message) this.#finish(this.#message, "completed");
    this.#message = undefined;
  }

  #cite(annotation: JsonFields): void {
    const { type, url_citation: citation } = annotation;
    if (type !== "url_citation" || !isJsonObject(citation)) return;
    const message = this.#lastMessage ?? this.#openMessage();
    this.#characters += message.cite({ type, ...citation });
  }

  /** An image of the answer. It comes as a whole. */
  #addImage(url: unknown): void {
    const [, data] =
      typeof url === "string" ? (/^data:image\/[^;,]+;base64,(.*)$/s.exec(url) ?? []) : [];
    if (data === undefined) return;
    this.#endTexts();
    const { index, id } = this.#next("ig");
    const item = {
      id,
      type: "image_generation_call",
      status: "completed",
      result: this.#counted(data),
    };
    const started = { ...item, status: "in_progress", result: null };
    this.#emit("response.output_item.added", { output_index: index, item: started });
    this.#finish({ index, id, end: () => item }, "completed");
  }

  /** The first part of a call has its id and its name. */
  #addToCall(part: JsonFields, index: unknown): void {
    const { name, arguments: text } = fieldsOf(part["function"]);
    const call = this.#calls.get(index) ?? this.#openCall(String(part["id"]), name);
    this.#calls.set(index, call);
    if (isText(text)) call.add(this.#counted(text));
    if (this.#settings.wantsEncrypted) {
      this.#characters += this.#returned.addToCall(call.callId, part["extra_content"]);
    }
  }

  /** Throws IsolatedFailureError for a call of a kind that no client has asked for. */
  #openCall(callId: string, name: unknown): CallItem {
    if (!isText(name)) throw new IsolatedFailureError("a call has no name");
    this.#endTexts();
    const origin = this.#settings.origins.get(name) ?? { type: "function", name };
    const next = this.#next(CALL_PREFIXES[origin.type]);
    this.#characters += callId.length + name.length;
    return new CallItem({ ...next, emit: this.#emit, origin, callId });
  }

  #endTexts(): void {
    if (this.#reasoning) this.#finish(this.#reasoning, "completed");
    this.#reasoning = undefined;
    this.#endMessage();
  }

  #next(prefix: string): { index: number; id: string } {
    const index = this.#finished.push(undefined) - 1;
    this.#characters += ITEM_CHARACTERS;
    return { index, id: this.#idOf(prefix, index) };
  }

  #finish(item: Item, status: ItemStatus): void {
    const whole = item.end(status);
    this.#emit("response.output_item.done", { output_index: item.index, item: whole });
    this.#finished[item.index] = whole;
  }

  #counted(text: string): string {
    this.#characters += text.length;
    return text;
  }

  #logprobsIn(logprobs: unknown): readonly JsonFields[] {
    if (!this.#settings.wantsLogprobs) return [];
    const tokens = listOf(fieldsOf(logprobs)["content"]);
    if (tokens.length > 0) this.#characters += answerText(tokens).length;
    return tokens;
  }
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function listOf(value: unknown): readonly JsonFields[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}
