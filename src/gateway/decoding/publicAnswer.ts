import {
  onlyListedChunkFields,
  onlyListedFields,
  type ChatChunk,
  type Choice,
  type ChunkChoice,
  type Delta,
  type UnbilledCompletion,
} from "../../contract/chat/chatAnswer.ts";
import {
  finishReasonOf,
  isMissingFinishReason,
  isUnknownFinishReason,
} from "../../contract/chat/finishReason.ts";
import { usageObject, type Usage } from "../../contract/usage.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { AnswerError, choiceIndex, choiceList } from "../../providers/provider.ts";
import { reportedFailureOf } from "../../providers/upstream.ts";
import { truncateChoice } from "./stopSequences.ts";
import { callsTool, withWholeCalls, type CallIdentity, type StreamedCalls } from "./toolCalls.ts";
import { messageBytes, detectContent } from "./generatedContent.ts";

/** The public properties of an answer. They do not depend on the provider. */
export interface AnswerIdentity extends CallIdentity {
  /** The model id that the client asked for. */
  readonly model: string;
  /** Unix time in seconds, used if the provider sends none. */
  readonly created: number;
  readonly unknownFields: "forward" | "reject";
  /** Where a stream has its usage: on the chunk with the last finish reason, or in its own chunk after it. */
  readonly usageChunk?: "finish" | "own";
  /** Called for a non-standard finish reason. The client gets a standard one. */
  readonly unknownFinishReason?: (() => void) | undefined;
}

/** Strict clients reject any other value, such as Groq's `on_demand`. */
const SERVICE_TIERS: ReadonlySet<unknown> = new Set([
  undefined,
  null,
  "auto",
  "default",
  "flex",
  "scale",
  "priority",
]);

/**
 * The public form of a provider's completion, without usage. Its text ends before the first of the `stop` sequences.
 * `textBytes` counts all generated text, when it is read. Throws AnswerError if the reply is not a finished answer.
 */
export function publicCompletion(
  reply: JsonFields,
  identity: AnswerIdentity,
  stop: readonly string[] = [],
): { readonly completion: UnbilledCompletion; readonly textBytes: number } {
  const choices = choiceList(reply["choices"]).map((choice, at) =>
    publicChoice(choice, at, identity),
  );
  if (choices.length === 0) throw new AnswerError("the answer has no choices");
  const open: UnbilledCompletion = {
    ...publicFields(reply),
    id: identity.id,
    object: "chat.completion",
    created: createdOf(reply, identity),
    model: identity.model,
    choices: stop.length > 0 ? choices.map((choice) => truncateChoice(choice, stop)) : choices,
  };
  const completion = identity.unknownFields === "forward" ? open : onlyListedFields(open);
  return {
    completion,
    // Most providers report the usage, so the text is rarely measured. Text after a stop sequence was generated too.
    get textBytes() {
      return choices.reduce((sum, { message }) => sum + messageBytes(message), 0);
    },
  };
}

/** The usage for the client: the `billed` figures, and other `reported` fields if unknown fields are forwarded. */
export function publicUsage(
  billed: Usage,
  reported: unknown,
  { unknownFields }: Pick<AnswerIdentity, "unknownFields">,
): Record<string, unknown> {
  return usageObject(billed, unknownFields === "forward" ? reported : undefined);
}

/**
 * The public form of a provider's chunk, without usage. It may have no choices. It still has the unlisted fields, because
 * they count as content and cost money. `calls`: the tool calls of the stream so far. Throws AnswerError.
 */
export function publicChunk(
  reply: JsonFields,
  identity: AnswerIdentity,
  calls: StreamedCalls,
): ChatChunk {
  return {
    ...publicFields(reply),
    id: identity.id,
    object: "chat.completion.chunk",
    created: createdOf(reply, identity),
    model: identity.model,
    choices: choiceList(reply["choices"]).map((choice, at) =>
      publicChunkChoice(choice, at, identity, calls),
    ),
  };
}

/** The last chunk of a stream with its usage, in this chunk or in one more after it. */
export function withUsage(
  last: ChatChunk,
  billed: Usage,
  reported: unknown,
  identity: Pick<AnswerIdentity, "unknownFields" | "usageChunk">,
): readonly ChatChunk[] {
  const usage = publicUsage(billed, reported, identity);
  if (identity.usageChunk !== "own") return [{ ...last, usage }];
  return [last, { ...last, choices: [], usage }];
}

/** The part of a chunk that the client gets. Undefined if that is nothing. */
export function visibleChunk(
  chunk: ChatChunk,
  { unknownFields }: Pick<AnswerIdentity, "unknownFields">,
): ChatChunk | undefined {
  if (unknownFields === "forward") return chunk;
  const listed = onlyListedChunkFields(chunk);
  const choices = listed.choices.filter(({ delta, finish_reason }, at) => {
    const isEmptied = isEmpty(delta) && !isEmpty(chunk.choices[at]?.delta ?? {});
    return finish_reason !== null || !isEmptied;
  });
  return choices.length > 0 ? { ...listed, choices } : undefined;
}

function isEmpty(delta: Delta): boolean {
  return Object.keys(delta).length === 0;
}

function publicChoice(choice: unknown, at: number, identity: AnswerIdentity): Choice {
  if (!isJsonObject(choice) || !isJsonObject(choice["message"])) {
    throw new AnswerError("a choice has no message");
  }
  throwIfError(choice);
  const index = choiceIndex(choice["index"], at);
  const message = withWholeCalls(choice["message"], identity, index);
  return {
    ...choice,
    index,
    finish_reason: finishReason(choice["finish_reason"], callsTool(message), identity),
    message: { ...message, role: "assistant", ...detectContent(message) },
  };
}

function publicChunkChoice(
  choice: unknown,
  at: number,
  identity: AnswerIdentity,
  calls: StreamedCalls,
): ChunkChoice {
  if (!isJsonObject(choice)) throw new AnswerError("a choice is not an object");
  throwIfError(choice);
  const index = choiceIndex(choice["index"], at);
  const delta = isJsonObject(choice["delta"])
    ? calls.read(publicDelta(choice["delta"]), index)
    : {};
  const reason = choice["finish_reason"];
  if (isMissingFinishReason(reason)) return { ...choice, index, delta, finish_reason: null };
  calls.end(index);
  const finish = finishReason(reason, calls.hasBegun(index), identity);
  return { ...choice, index, delta, finish_reason: finish };
}

/** OpenRouter reports an upstream failure in the choice: https://openrouter.ai/docs/api/reference/errors-and-debugging */
function throwIfError(choice: JsonFields): void {
  if (isJsonObject(choice["error"])) throw reportedFailureOf(choice);
}

function publicDelta(delta: JsonFields): Delta {
  const { role, content, ...rest } = delta;
  const others =
    role === undefined || role === null ? rest : { role: "assistant" as const, ...rest };
  if (typeof content === "string") return { ...others, content };
  const { content: text, ...reasoning } = detectContent(delta);
  // Parts without text, such as reasoning, do not make a `content`.
  return { ...others, ...(text === "" ? {} : { content: text }), ...reasoning };
}

function finishReason(
  reported: unknown,
  calledTool: boolean,
  { unknownFinishReason }: AnswerIdentity,
): ReturnType<typeof finishReasonOf> {
  if (isUnknownFinishReason(reported)) unknownFinishReason?.();
  const reason = finishReasonOf(reported, calledTool);
  if (reason === "error") throw new AnswerError("the provider failed to finish");
  return reason;
}

/** The fields of a reply without `usage`, and without a non-standard `service_tier`. */
function publicFields(reply: JsonFields): JsonFields {
  const { usage: _, ...fields } = reply;
  if (SERVICE_TIERS.has(fields["service_tier"])) return fields;
  const { service_tier: __, ...others } = fields;
  return others;
}

function createdOf(reply: JsonFields, identity: AnswerIdentity): number {
  const created = reply["created"];
  return typeof created === "number" && Number.isInteger(created) && created > 0
    ? created
    : identity.created;
}
