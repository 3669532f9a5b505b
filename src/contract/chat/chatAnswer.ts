import type { StreamFailure } from "../errors.ts";
import type { FinishReason } from "./finishReason.ts";

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
 * The last chunk of a stream that failed after its 200 was sent. An event with the error alone follows it, then `DONE`.
 *
 * OpenAI's client raises `error`; go-openai does if it is the first field. LangChain4j and most packages of the AI SDK
 * raise an error only for a chunk that they cannot read, which `logprobs: false` makes. Versions 4 and 5 of the AI SDK's
 * package for compatible servers take it for an ordinary chunk, and raise the event that follows.
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

/** Leaves out the passthrough fields of a chunk without usage that is not a `failureChunk`. */
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
