import type { ChatChunk, UnbilledCompletion } from "../../../contract/chat/chatAnswer.ts";
import type { StreamFailure } from "../../../contract/errors.ts";
import { messagesErrorType, messagesFailure } from "../../../contract/messages/messagesError.ts";
import type { Usage } from "../../../contract/usage.ts";
import { exactReader } from "../../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../../lib/json.ts";
import { AnswerError, answerText, IsolatedFailureError } from "../../../providers/provider.ts";
import type { AnswerForm } from "../answerForm.ts";

/**
 * The signature of reasoning that a provider of another kind wrote. Anthropic signs its own reasoning, and clients return
 * it with the signature: https://platform.claude.com/docs/en/build-with-claude/extended-thinking
 */
export const TRANSLATED_SIGNATURE = "tollgate-translated";

/** Whether a block of reasoning came from an answer that was translated. A provider of kind anthropic refuses it. */
export function isTranslatedThinking(block: JsonFields): boolean {
  return block["type"] === "thinking" && block["signature"] === TRANSLATED_SIGNATURE;
}

/** The reason why a message ended: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons */
const STOP_REASONS: ReadonlyMap<unknown, string> = new Map([
  ["stop", "end_turn"],
  ["length", "max_tokens"],
  ["tool_calls", "tool_use"],
  ["content_filter", "refusal"],
]);

/** What the form of one answer needs to know of its request. */
interface MessageIdentity {
  /** The request's id, `req_...`. */
  readonly requestId: string;
  readonly model: string;
  /** The estimate of the prompt's tokens. The first event of a stream has it, because no count is known then. */
  readonly promptEstimate: number;
}

/** The block of a stream that is not closed yet. */
type OpenBlock =
  | { readonly type: "text" | "thinking" }
  | { readonly type: "tool_use"; readonly call: unknown };

/**
 * The form of POST /v1/messages for an answer that came as a chat: a message, or the events of
 * https://platform.claude.com/docs/en/build-with-claude/streaming. Blocks follow each other; none are open at once.
 */
export class MessagesForm implements AnswerForm {
  readonly isPlain = false;
  readonly #identity: MessageIdentity;
  #hasStarted = false;
  #blockCount = 0;
  #open: OpenBlock | undefined;
  /** The indexes of the calls that have begun. */
  readonly #calls = new Set<unknown>();

  constructor(identity: MessageIdentity) {
    this.#identity = identity;
  }

  completion({ choices }: UnbilledCompletion, billed: Usage): string {
    const [choice] = choices;
    const content = choice ? blocksOf(choice.message, this.#identity) : [];
    return answerText({
      ...this.#message(content),
      stop_reason: STOP_REASONS.get(choice?.finish_reason) ?? "end_turn",
      usage: usageOf(billed),
    });
  }

  chunk({ choices }: ChatChunk): string {
    return choices.map(({ delta }) => this.#begin() + this.#add(delta)).join("");
  }

  ending(held: readonly ChatChunk[], billed: Usage): string {
    const choices = held.flatMap((chunk) => chunk.choices);
    const last = choices.map(({ delta }) => this.#add(delta)).join("");
    const reason = STOP_REASONS.get(choices.at(-1)?.finish_reason) ?? "end_turn";
    return [
      this.#begin(),
      last,
      this.#close(),
      event("message_delta", {
        delta: { stop_reason: reason, stop_sequence: null },
        usage: usageOf(billed),
      }),
      event("message_stop", {}),
    ].join("");
  }

  failure(error: StreamFailure): string {
    return messagesStreamFailure(error, this.#identity.requestId);
  }

  /** The first events of a stream, once. */
  #begin(): string {
    if (this.#hasStarted) return "";
    this.#hasStarted = true;
    const usage = { input_tokens: this.#identity.promptEstimate, output_tokens: 0 };
    const message = { ...this.#message([]), stop_reason: null, usage };
    return event("message_start", { message }) + event("ping", {});
  }

  #message(content: readonly JsonFields[]): JsonFields {
    const { requestId, model } = this.#identity;
    const id = requestId.replace("req_", "msg_");
    return { id, type: "message", role: "assistant", model, content, stop_sequence: null };
  }

  #add(delta: JsonFields): string {
    let events = "";
    const reasoning = reasoningOf(delta);
    if (reasoning !== "") {
      events += this.#openBlock({ type: "thinking" }, { thinking: "", signature: "" });
      events += this.#delta({ type: "thinking_delta", thinking: reasoning });
    }
    const text = textOf(delta);
    if (text !== "") {
      events += this.#openBlock({ type: "text" }, { text: "" });
      events += this.#delta({ type: "text_delta", text });
    }
    for (const [position, call] of callsOf(delta).entries())
      events += this.#addToCall(call, call["index"] ?? position);
    return events;
  }

  /** `index` is that of the call among the calls. */
  #addToCall(call: JsonFields, index: unknown): string {
    const { id } = call;
    const { name, arguments: text } = fieldsOf(call["function"]);
    let events = "";
    if (!this.#calls.has(index)) {
      if (typeof name !== "string") throw new AnswerError("a call has no name");
      const named = { id: callIdOf(id, this.#identity, this.#calls.size), name, input: {} };
      this.#calls.add(index);
      events += this.#close() + this.#openBlock({ type: "tool_use", call: index }, named);
    }
    if (typeof text !== "string" || text === "") return events;
    if (this.#open?.type !== "tool_use" || this.#open.call !== index)
      throw new AnswerError("the parts of calls are mixed");
    return events + this.#delta({ type: "input_json_delta", partial_json: text });
  }

  /** Opens a block, unless one of this kind is open. Closes a block of another kind. */
  #openBlock(block: OpenBlock, start: JsonFields): string {
    if (this.#open?.type === block.type) return "";
    const before = this.#close();
    this.#open = block;
    const content = { type: block.type, ...start };
    return (
      before + event("content_block_start", { index: this.#blockCount, content_block: content })
    );
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

/** The event that ends a stream that failed. */
export function messagesStreamFailure(
  { type, message, ...extra }: StreamFailure,
  requestId: string,
): string {
  const error = { type: messagesErrorType(type), message, ...extra };
  return messagesFailure({ type: "error", error, request_id: requestId });
}

function event(type: string, fields: JsonFields): string {
  return `event: ${type}\ndata: ${answerText({ type, ...fields })}\n\n`;
}

/** The blocks of a whole message. Throws AnswerError for a call that no client could run. */
function blocksOf(message: JsonFields, identity: MessageIdentity): readonly JsonFields[] {
  const readJson = exactReader();
  const thinking = reasoningOf(message);
  const text = textOf(message);
  return [
    ...(thinking === "" ? [] : [{ type: "thinking", thinking, signature: TRANSLATED_SIGNATURE }]),
    ...(text === "" ? [] : [{ type: "text", text }]),
    ...callsOf(message).map((call, index) => {
      const { name, arguments: argumentsText = "" } = fieldsOf(call["function"]);
      if (typeof name !== "string") throw new AnswerError("a call has no name");
      const id = callIdOf(call["id"], identity, index);
      return { type: "tool_use", id, name, input: inputOf(argumentsText, readJson) };
    }),
  ];
}

/** The id of the call with this number. Some servers send none, but the client must name the call with its result. */
function callIdOf(id: unknown, { requestId }: MessageIdentity, number: number): string {
  if (typeof id === "string" && id !== "") return id;
  return `${requestId.replace("req_", "toolu_")}_${number}`;
}

/** The model wrote the arguments, so a broken text says nothing about the provider. */
function inputOf(text: unknown, readJson: (text: string) => unknown): JsonFields {
  if (typeof text !== "string") throw new AnswerError("the arguments of a call are not a text");
  if (text.trim() === "") return {};
  try {
    const value = readJson(text);
    if (isJsonObject(value)) return value;
  } catch {
    // The parser's error quotes the answer.
  }
  throw new IsolatedFailureError("the arguments of a call are not a JSON object");
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

function callsOf({ tool_calls: calls }: JsonFields): readonly JsonFields[] {
  return Array.isArray(calls) ? calls.filter(isJsonObject) : [];
}

/** The input tokens of this interface leave out what was read from and written to a cache. */
function usageOf(usage: Usage): JsonFields {
  const { promptTokens, cachedTokens, cacheWriteTokens, completionTokens } = usage;
  return {
    input_tokens: promptTokens - cachedTokens - cacheWriteTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
  };
}
