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
 * Reasons of single providers, as they document them: of Zhipu (https://docs.z.ai/api-reference/llm/chat-completion),
 * Mistral (https://docs.mistral.ai/api/) and DeepSeek (https://api-docs.deepseek.com/api/create-chat-completion).
 * Taken for the end of a whole answer, one that was cut or broke off would look like one.
 */
const OTHER_REASONS: ReadonlyMap<unknown, FinishReason> = new Map<unknown, FinishReason>([
  ["sensitive", "content_filter"],
  ["model_length", "length"],
  ["model_context_window_exceeded", "length"],
  ["insufficient_system_resource", "error"],
  ["network_error", "error"],
]);

/** Fields that the contract does not list stay where they are, unread. */
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

/** A whole answer of POST /v1/chat/completions, before it is billed. `created` is in seconds since 1970. */
export interface UnbilledCompletion extends Open {
  readonly id: string;
  readonly object: "chat.completion";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly Choice[];
}

/** The same as its client gets it. */
export interface ChatCompletion extends UnbilledCompletion {
  readonly usage: Open;
}

/** What a chunk adds to a message. Never null: a field is there or it is not. */
export interface Delta extends Open {
  readonly role?: "assistant";
  readonly content?: string;
}

export interface ChunkChoice extends Open {
  readonly index: number;
  readonly delta: Delta;
  readonly finish_reason: FinishReason | null;
}

/** One event of a chat stream. What a client sees has at least one choice, but where the usage has a chunk of its own. */
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

/** What stands in place of a finish reason where there is none: some servers write null as a text, or an empty one. */
const NO_FINISH_REASON: ReadonlySet<unknown> = new Set([undefined, null, "", "null"]);

/** True where a provider gives no finish reason. In a chunk that means: the answer goes on. */
export function isMissingFinishReason(reported: unknown): boolean {
  return NO_FINISH_REASON.has(reported);
}

/** True for a word that nothing is known of; an absent reason is no word. */
export function isUnknownFinishReason(reported: unknown): boolean {
  return [NO_FINISH_REASON, FINISH_REASONS, OTHER_REASONS].every((known) => !known.has(reported));
}

/** The reason of a finished answer, whatever the provider wrote. `error` stays: it counts as the provider's failure. */
export function finishReasonOf(reported: unknown, calledTool: boolean): FinishReason {
  if (FINISH_REASONS.has(reported)) return reported as FinishReason;
  return OTHER_REASONS.get(reported) ?? (calledTool ? "tool_calls" : "stop");
}

/** True where a choice bears content: text, reasoning, a tool call, a finish reason. A role, or an empty text, is none. */
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
 * The chunk that ends a stream which failed after its 200 had left. It precedes `DONE`.
 *
 * OpenAI's own client raises `error`, and go-openai where it is the first field. The AI SDK tries the schema of an
 * ordinary chunk first, which drops `error`, so that a broken answer would look finished. `logprobs: false` does not fit
 * that schema, so it takes the error's; to others it says that there are none.
 * https://github.com/vercel/ai/blob/main/packages/openai/src/chat/openai-chat-api.ts
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

/** The answer with the fields that the contract lists, and no others: for `unknown_fields = "reject"`. */
export function onlyListedFields(answer: UnbilledCompletion): UnbilledCompletion {
  return {
    ...pick(answer, ["id", "object", "created", "model"]),
    choices: answer.choices.map((choice) => ({
      ...pick(choice, ["index", "finish_reason"]),
      message: pick(choice.message, ["role", "content"]),
    })),
  };
}

/** The same for a chunk without usage that is no `failureChunk`. */
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
