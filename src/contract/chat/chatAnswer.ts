import type { StreamFailure } from "../errors.ts";

/** Why an answer ended. */
export type FinishReason = "stop" | "length" | "content_filter" | "tool_calls" | "error";

const FINISH_REASONS: ReadonlySet<unknown> = new Set<FinishReason>([
  "stop",
  "length",
  "content_filter",
  "tool_calls",
  "error",
]);

/**
 * Finish reasons that only some providers have. Unless they are mapped, an answer that was cut looks complete. Zhipu (https://docs.z.ai/api-reference/llm/chat-completion),
 * Mistral (https://docs.mistral.ai/api/) and DeepSeek (https://api-docs.deepseek.com/api/create-chat-completion).
 */
const OTHER_REASONS: ReadonlyMap<unknown, FinishReason> = new Map<unknown, FinishReason>([
  ["sensitive", "content_filter"],
  ["model_length", "length"],
  ["model_context_window_exceeded", "length"],
  ["insufficient_system_resource", "error"],
  ["network_error", "error"],
]);

/** An object with passthrough fields. */
interface Open {
  readonly [field: string]: unknown;
}

export interface AnswerMessage extends Open {
  readonly role: "assistant";
  readonly content: string;
}

export interface Choice extends Open {
  readonly index: number;
  readonly finish_reason: FinishReason;
  readonly message: AnswerMessage;
}

/** A complete answer of POST /v1/chat/completions without usage. `created` is in seconds since 1970. */
export interface UnbilledCompletion extends Open {
  readonly id: string;
  readonly object: "chat.completion";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly Choice[];
}

/** What a chunk adds to a message. No field is null. */
export interface Delta extends Open {
  readonly role?: "assistant";
  readonly content?: string;
}

export interface ChunkChoice extends Open {
  readonly index: number;
  readonly delta: Delta;
  readonly finish_reason: FinishReason | null;
}

/** One event of a chat stream. It has at least one choice, except a separate usage chunk. */
export interface ChatChunk extends Open {
  readonly id: string;
  readonly object: "chat.completion.chunk";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly ChunkChoice[];
  readonly usage?: Open;
}

/** The last event of every chat stream. */
export const DONE = "[DONE]";

/** Some servers send the text "null" or an empty one for a missing finish reason. */
const NO_FINISH_REASON: ReadonlySet<unknown> = new Set([undefined, null, "", "null"]);

/** Whether there is no finish reason. In a chunk: the answer continues. */
export function isMissingFinishReason(reported: unknown): boolean {
  return NO_FINISH_REASON.has(reported);
}

/** Whether a finish reason is present and not in the tables above. */
export function isUnknownFinishReason(reported: unknown): boolean {
  return [NO_FINISH_REASON, FINISH_REASONS, OTHER_REASONS].every((known) => !known.has(reported));
}

/** The finish reason that the client gets for a provider's. `error` counts as the provider's failure. */
export function finishReasonOf(reported: unknown, calledTool: boolean): FinishReason {
  if (FINISH_REASONS.has(reported)) return reported as FinishReason;
  return OTHER_REASONS.get(reported) ?? (calledTool ? "tool_calls" : "stop");
}

/** Whether a choice has content: text, reasoning, a tool call or a finish reason. A role or an empty text is not content. */
export function bearsContent({
  delta,
  finish_reason,
}: Pick<ChunkChoice, "delta" | "finish_reason">): boolean {
  return (
    finish_reason !== null ||
    Object.entries(delta).some(([field, value]) => field !== "role" && !isEmpty(value))
  );
}

/**
 * The last chunk, before `DONE`, of a stream that failed after its 200 was sent.
 *
 * OpenAI's client raises `error`; go-openai does if it is the first field. The AI SDK first tries the schema of an
 * ordinary chunk, which drops `error`: the answer would look complete. `logprobs: false` breaks that schema, so that the
 * SDK reads the error. https://github.com/vercel/ai/blob/main/packages/openai/src/chat/openai-chat-api.ts
 */
export function failureChunk(
  answer: Pick<ChatChunk, "id" | "created" | "model">,
  error: StreamFailure,
): ChatChunk {
  return {
    error: { ...error },
    id: answer.id,
    object: "chat.completion.chunk",
    created: answer.created,
    model: answer.model,
    choices: [{ index: 0, delta: {}, logprobs: false, finish_reason: "error" }],
  };
}

/** The answer without passthrough fields, for `unknown_fields = "reject"`. */
export function onlyListedFields(answer: UnbilledCompletion): UnbilledCompletion {
  return {
    ...pick(answer, ["id", "object", "created", "model"]),
    choices: answer.choices.map((choice) => ({
      ...pick(choice, ["index", "finish_reason"]),
      message: pick(choice.message, ["role", "content"]),
    })),
  };
}

/** The same for a chunk without usage that is not a `failureChunk`. */
export function onlyListedChunkFields(chunk: ChatChunk): ChatChunk {
  return {
    ...pick(chunk, ["id", "object", "created", "model"]),
    choices: chunk.choices.map((choice) => ({
      ...pick(choice, ["index", "finish_reason"]),
      delta: pick(choice.delta, ["role", "content"]),
    })),
  };
}

function pick<Source extends Open, const Field extends keyof Source & string>(
  source: Source,
  fields: readonly Field[],
): Pick<Source, Field> {
  const entries = fields.filter((field) => Object.hasOwn(source, field));
  return Object.fromEntries(entries.map((field) => [field, source[field]])) as Pick<Source, Field>;
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "" || isEmptyArray(value);
}

function isEmptyArray(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
