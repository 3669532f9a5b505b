import {
  finishReasonOf,
  isMissingFinishReason,
  isUnknownFinishReason,
  onlyListedChunkFields,
  onlyListedFields,
  type ChatChunk,
  type Choice,
  type ChunkChoice,
  type Delta,
  type UnbilledCompletion,
} from "../../contract/chat/chatAnswer.ts";
import { usageObject, type Usage } from "../../contract/usage.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { AnswerError, choiceIndex, choiceList } from "../../providers/provider.ts";
import { reportedFailureOf } from "../../providers/upstream.ts";
import { stopped } from "./stopSequences.ts";
import { messageBytes, detectContent } from "./generatedContent.ts";

/** What an answer shows of itself, whichever provider made it. */
export interface AnswerIdentity {
  readonly id: string;
  /** The model id that the client asked for. */
  readonly model: string;
  /** Seconds since 1970, where the provider gives none. */
  readonly created: number;
  readonly unknownFields: "forward" | "reject";
  /** Where a stream shows its usage: on the chunk of the last finish reason, or behind it in one without choices. */
  readonly usageChunk?: "finish" | "own";
  /** Told of a finish reason that is none of the convention's, which the client sees as one of them. */
  readonly unknownFinishReason?: (() => void) | undefined;
}

/** Clients that read strictly fail at any other, such as Groq's `on_demand`. */
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
 * The public form of a provider's completion, whose text ends before any of the `stop` sequences that
 * are left to the gateway; without usage, for what is shown of that is what is billed. `textBytes` is all
 * that was generated. Throws AnswerError where it is no finished answer.
 */
export function publicCompletion(
  reply: JsonFields,
  identity: AnswerIdentity,
  stop: readonly string[] = [],
): { completion: UnbilledCompletion; textBytes: number } {
  const said = choiceList(reply["choices"]).map((choice, at) => publicChoice(choice, at, identity));
  if (said.length === 0) throw new AnswerError("the answer has no choices");
  // What comes behind a stop sequence was generated too: it is counted, though nobody sees it.
  const textBytes = said.reduce((sum, { message }) => sum + messageBytes(message), 0);
  const open: UnbilledCompletion = {
    ...openFields(reply),
    id: identity.id,
    object: "chat.completion",
    created: createdOf(reply, identity),
    model: identity.model,
    choices: stop.length > 0 ? said.map((choice) => stopped(choice, stop)) : said,
  };
  const completion = identity.unknownFields === "forward" ? open : onlyListedFields(open);
  return { completion, textBytes };
}

/** The usage that a client sees: what is billed, and what else the provider `reported` where that may be shown. */
export function publicUsage(
  billed: Usage,
  reported: unknown,
  { unknownFields }: Pick<AnswerIdentity, "unknownFields">,
): Record<string, unknown> {
  return usageObject(billed, unknownFields === "forward" ? reported : undefined);
}

/**
 * The public form of a provider's chunk, without usage; its choices may be none. Fields that are not listed
 * are still there: also what the client does not see is content, and costs. `callingChoices` have called a
 * tool before. Throws AnswerError.
 */
export function publicChunk(
  reply: JsonFields,
  identity: AnswerIdentity,
  callingChoices: ReadonlySet<number>,
): ChatChunk {
  return {
    ...openFields(reply),
    id: identity.id,
    object: "chat.completion.chunk",
    created: createdOf(reply, identity),
    model: identity.model,
    choices: choiceList(reply["choices"]).map((choice, at) =>
      publicChunkChoice(choice, at, identity, callingChoices),
    ),
  };
}

/** The last chunk of a stream with the usage, as `publicUsage` gives it, on it or in a chunk behind it. */
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

/** What a client sees of a chunk; undefined where that is nothing. */
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

export function callsTool(said: JsonFields): boolean {
  const calls = said["tool_calls"];
  return (Array.isArray(calls) && calls.length > 0) || isJsonObject(said["function_call"]);
}

function publicChoice(choice: unknown, at: number, identity: AnswerIdentity): Choice {
  if (!isJsonObject(choice) || !isJsonObject(choice["message"])) {
    throw new AnswerError("a choice has no message");
  }
  refuseError(choice);
  const message = choice["message"];
  return {
    ...choice,
    index: choiceIndex(choice["index"], at),
    finish_reason: finishReason(choice["finish_reason"], callsTool(message), identity),
    message: { ...message, role: "assistant", ...detectContent(message) },
  };
}

function publicChunkChoice(
  choice: unknown,
  at: number,
  identity: AnswerIdentity,
  callingChoices: ReadonlySet<number>,
): ChunkChoice {
  if (!isJsonObject(choice)) throw new AnswerError("a choice is not an object");
  refuseError(choice);
  const index = choiceIndex(choice["index"], at);
  const delta = isJsonObject(choice["delta"]) ? publicDelta(choice["delta"]) : {};
  const reason = choice["finish_reason"];
  return {
    ...choice,
    index,
    delta,
    finish_reason: isMissingFinishReason(reason)
      ? null
      : finishReason(reason, callingChoices.has(index) || callsTool(delta), identity),
  };
}

/** A provider that hands on others' answers says so of one that broke off: https://openrouter.ai/docs/api/reference/errors-and-debugging */
function refuseError(choice: JsonFields): void {
  if (isJsonObject(choice["error"])) throw reportedFailureOf(choice);
}

function publicDelta(delta: JsonFields): Delta {
  const { role, content, ...rest } = delta;
  const said = role === undefined || role === null ? rest : { role: "assistant" as const, ...rest };
  if (typeof content === "string") return { ...said, content };
  const { content: text, ...thoughts } = detectContent(delta);
  // Neither nothing nor parts without a text, such as thoughts, are a text.
  return { ...said, ...(text === "" ? {} : { content: text }), ...thoughts };
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

/** The fields of a reply that a client may get as they are. */
function openFields(reply: JsonFields): JsonFields {
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
