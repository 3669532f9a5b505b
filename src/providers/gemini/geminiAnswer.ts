import { bearsContent, isUnknownFinishReason } from "../../contract/chatAnswer.ts";
import { readChatUsage, type Usage } from "../../contract/usage.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { sha256 } from "../../lib/sha256.ts";
import { parseAnswer, withoutIndex } from "../chat/answerObject.ts";
import {
  nothingTold,
  readCandidate,
  type ReadChoice,
  type Said,
  type Told,
} from "./geminiCandidate.ts";
import { choiceList, type ChatReply, type ReadChatEvent } from "../provider.ts";

/** An id that is made here has so many characters of the answer's own, for elsewhere at most 40 are allowed. */
const ID_CHARS_MAX = 24;

/** Reads a whole GenerateContentResponse: https://ai.google.dev/api/generate-content#generatecontentresponse */
export function readGeminiAnswer(text: string): ChatReply {
  const { choices, usage, isPartial, reported } = readAnswer(text, nothingTold());
  return {
    completion: {
      choices: choices.map(({ index, finishReason, said }) => ({
        index,
        finish_reason: finishReason,
        message: messageOf(said),
      })),
      usage: reported,
    },
    usage,
    isUsageEarly: isPartial && usage !== undefined,
  };
}

/** The usage of a whole answer that said something, by its `usageMetadata`. */
export function readGeminiUsage(metadata: unknown): Usage | undefined {
  const { usage, isPartial } = usageOf(metadata, { hasSpoken: true });
  return isPartial ? undefined : usage;
}

function messageOf({ tool_calls: calls, images, ...said }: Said): JsonFields {
  return {
    content: "",
    ...said,
    ...(calls && { tool_calls: calls.map(withoutIndex) }),
    ...(images && { images: images.map(withoutIndex) }),
  };
}

/**
 * Reads a stream, in which each event is such a response with what was added since the last one. It has no
 * terminator and ends behind the finish reason. The usage of each event is that of everything so far: what comes
 * before the end is an early figure.
 */
export function geminiEvents(): ReadChatEvent {
  const told = nothingTold();
  return ({ data }) => {
    if (data === "") return { kind: "nothing" };
    const { choices, usage, isPartial, reported } = readAnswer(data, told);
    if (choices.length === 0 && !usage) return { kind: "nothing" };
    const chunk = { choices: choices.flatMap(endApart), usage: reported };
    const isUsageEarly = usage !== undefined && (isPartial || !told.hasFinished);
    return { kind: "chunk", chunk, usage, isUsageEarly };
  };
}

/**
 * What is said, and the end behind it, as in the convention's own streams: the end waits for its charge, and clients
 * take a call to be whole only when something comes behind it. A reason that nobody knows is judged by what stands
 * beside it.
 */
function endApart({ index, finishReason, said }: ReadChoice): readonly JsonFields[] {
  const says = bearsContent({ delta: { ...said }, finish_reason: null });
  if (finishReason === null || !says || isUnknownFinishReason(finishReason)) {
    return [{ index, finish_reason: finishReason, delta: said }];
  }
  return [
    { index, finish_reason: null, delta: said },
    { index, finish_reason: finishReason, delta: {} },
  ];
}

function readAnswer(text: string, told: Told): ReadUsage & { choices: readonly ReadChoice[] } {
  const answer = parseAnswer(text);
  const candidates = choiceList(answer["candidates"]);
  // A prompt that was blocked has none. The provider did its work and bills it: that is an answer of which
  // all was withheld, and no failure.
  const given =
    candidates.length === 0 && isBlocked(answer["promptFeedback"])
      ? [{ finishReason: "PROHIBITED_CONTENT" }]
      : candidates;
  const idPrefix = (): string => (told.idPrefix ??= idPrefixOf(answer["responseId"], text));
  const choices = given.map((candidate, at) => readCandidate(candidate, at, told, idPrefix));
  return { choices, ...usageOf(answer["usageMetadata"], told) };
}

/** https://ai.google.dev/api/generate-content#PromptFeedback */
function isBlocked(feedback: unknown): boolean {
  return isJsonObject(feedback) && typeof feedback["blockReason"] === "string";
}

/** Unlike the next answer's, and the same for all calls of one. */
function idPrefixOf(responseId: unknown, text: string): string {
  const own = typeof responseId === "string" ? responseId.replace(/[^\w-]/g, "") : "";
  return `call_${(own || sha256(text).toHex()).slice(0, ID_CHARS_MAX)}`;
}

interface ReadUsage {
  readonly usage: Usage | undefined;
  /** What was said is not counted yet, only the prompt and thoughts. */
  readonly isPartial: boolean;
  /** What else is shown of it. */
  readonly reported: JsonFields | undefined;
}

/**
 * Thoughts are counted beside the candidates, and results of the provider's own tools beside the prompt; cached tokens
 * are part of the prompt's: https://ai.google.dev/api/generate-content#UsageMetadata. A count of zero is left out of
 * the JSON, and so may that of the candidates be: it is what the total has beyond the others then. Where something was
 * said, and the total has no more, the count is not known yet.
 */
function usageOf(metadata: unknown, told: Pick<Told, "hasSpoken">): ReadUsage {
  const found = fieldsOf(metadata);
  const thoughts = countOf(found["thoughtsTokenCount"] ?? 0);
  const prompt =
    countOf(found["promptTokenCount"]) + countOf(found["toolUsePromptTokenCount"] ?? 0);
  const rest = countOf(found["totalTokenCount"]) - prompt - thoughts;
  const answered = found["candidatesTokenCount"] ?? (rest > 0 ? rest : undefined);
  const usage = readChatUsage({
    prompt_tokens: prompt,
    completion_tokens: countOf(answered ?? 0) + thoughts,
    prompt_tokens_details: { cached_tokens: found["cachedContentTokenCount"] },
  });
  const reported = { completion_tokens_details: { reasoning_tokens: thoughts } };
  return {
    usage,
    isPartial: told.hasSpoken && answered === undefined,
    reported: usage && reported,
  };
}

/** NaN for what is no count, so that no sum of it is one. */
function countOf(value: unknown): number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : Number.NaN;
}
