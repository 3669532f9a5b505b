import type { ChatChunk, UnbilledCompletion } from "../../../contract/chat/chatAnswer.ts";
import type { StreamFailure } from "../../../contract/errors.ts";
import { messagesErrorType, messagesFailure } from "../../../contract/messages/messagesAnswer.ts";
import type { Usage } from "../../../contract/usage.ts";
import { exactReader } from "../../../lib/exactJson.ts";
import { isJsonObject, type JsonFields } from "../../../lib/json.ts";
import { answerText, IsolatedFailureError } from "../../../providers/provider.ts";
import { event, piecesOf, StreamedBlocks } from "./streamedBlocks.ts";
import { TRANSLATED_SIGNATURE } from "./translatedThinking.ts";
import type { AnswerForm } from "../answerForm.ts";

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
  /** The estimate of the prompt's tokens. The first event of a stream has it if no count is known then. */
  readonly promptEstimate: number;
}

/**
 * The form of POST /v1/messages for an answer that came as a chat: a message, or the events of
 * https://platform.claude.com/docs/en/build-with-claude/streaming. A message has one choice, so only the first is shown.
 */
export class MessagesForm implements AnswerForm {
  readonly isPlain = false;
  readonly #identity: MessageIdentity;
  readonly #blocks = new StreamedBlocks();
  #hasStarted = false;

  constructor(identity: MessageIdentity) {
    this.#identity = identity;
  }

  completion({ choices }: UnbilledCompletion, billed: Usage): string {
    const [choice] = choices;
    const content = choice ? blocksOf(choice.message) : [];
    return answerText({
      ...this.#message(content),
      stop_reason: STOP_REASONS.get(choice?.finish_reason) ?? "end_turn",
      usage: usageOf(billed),
    });
  }

  chunk({ choices }: ChatChunk, reported: Usage | undefined): string {
    const events = choices
      .map(({ index, delta }) => (index === 0 ? this.#blocks.add(delta) : ""))
      .join("");
    // Until the first content the provider may still report the tokens of the prompt.
    return events === "" ? "" : this.#begin(reported) + events;
  }

  ending(held: readonly ChatChunk[], billed: Usage): string {
    const choices = held.flatMap((chunk) => chunk.choices);
    const reason = STOP_REASONS.get(choices.at(-1)?.finish_reason) ?? "end_turn";
    return [
      this.#begin(billed),
      this.#blocks.end(),
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
  #begin(reported: Usage | undefined): string {
    if (this.#hasStarted) return "";
    this.#hasStarted = true;
    // Some servers report zeros until the end.
    const prompt =
      reported && reported.promptTokens > 0
        ? usageOf(reported)
        : { input_tokens: this.#identity.promptEstimate };
    const message = {
      ...this.#message([]),
      stop_reason: null,
      usage: { ...prompt, output_tokens: 0 },
    };
    return event("message_start", { message }) + event("ping", {});
  }

  #message(content: readonly JsonFields[]): JsonFields {
    const { requestId, model } = this.#identity;
    const id = requestId.replace("req_", "msg_");
    return { id, type: "message", role: "assistant", model, content, stop_sequence: null };
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

/** The blocks of a whole message. Throws IsolatedFailureError for a call that no client could run. */
function blocksOf(message: JsonFields): readonly JsonFields[] {
  const readJson = exactReader();
  return piecesOf(message).map((piece) => {
    const { text } = piece;
    if (piece.type === "text") return { type: "text", text };
    if (piece.type === "thinking")
      return { type: "thinking", thinking: text, signature: TRANSLATED_SIGNATURE };
    const { id, name } = piece;
    if (typeof name !== "string") throw new IsolatedFailureError("a call has no name");
    return { type: "tool_use", id, name, input: inputOf(text, readJson) };
  });
}

/** The model wrote the arguments, so a broken text says nothing about the provider. */
function inputOf(text: string, readJson: (text: string) => unknown): JsonFields {
  if (text.trim() === "") return {};
  try {
    const value = readJson(text);
    if (isJsonObject(value)) return value;
  } catch {
    // The parser's error quotes the answer.
  }
  throw new IsolatedFailureError("the arguments of a call are not a JSON object");
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
