import { bearsContent, isUnknownFinishReason } from "../../contract/chat/chatAnswer.ts";
import { readChatUsage, type Usage } from "../../contract/usage.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { sha256 } from "../../lib/sha256.ts";
import { parseAnswer, withoutIndex } from "../reportedFailure.ts";
import {
  choiceList,
  type ChatReply,
  type ReadChatEvent,
  AnswerError,
  answerText,
  choiceIndex,
  IsolatedFailureError,
} from "../provider.ts";

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

/** Why a candidate ended, https://ai.google.dev/api/generate-content#FinishReason; any other reason is the gateway's to judge. */
const FINISH_REASONS: ReadonlyMap<unknown, string> = new Map([
  ["MAX_TOKENS", "length"],
  ["CONTINUATION", "length"],
  ...[
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "OTHER",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
  ].map((reason) => [reason, "content_filter"] as const),
]);
/**
 * The model's own mistakes: as long as nothing was said there is no answer, and the next route may have one. Behind
 * what was said they are ends like any other, for a caller can bring them about, and would have all of it for nothing.
 */
const MODEL_FAILURES: ReadonlySet<unknown> = new Set([
  "MALFORMED_FUNCTION_CALL",
  "MALFORMED_RESPONSE",
  "UNEXPECTED_TOOL_CALL",
  "TOO_MANY_TOOL_CALLS",
  "MISSING_THOUGHT_SIGNATURE",
]);
const UNFINISHED: ReadonlySet<unknown> = new Set([
  undefined,
  null,
  "",
  "FINISH_REASON_UNSPECIFIED",
]);

/** How much a candidate has said of what is told apart by its place. */
interface Counts {
  readonly calls: number;
  readonly images: number;
}

/** What is remembered of one answer while its events come. */
export interface Told {
  /** What the ids of calls that came without one begin with. */
  idPrefix: string | undefined;
  /** By candidate that has begun. */
  readonly counts: Map<number, Counts>;
  /** A text, a call or an image has come, thoughts aside: that is never without tokens. */
  hasSpoken: boolean;
  /** A thought has come before what is read now. */
  hasThought: boolean;
  /** A candidate has ended. */
  hasFinished: boolean;
}

/** The fields of a delta: each is there only where something stands in it. */
export interface Said {
  readonly role?: "assistant";
  readonly content?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly images?: readonly Image[];
  readonly extra_content?: JsonFields;
}

interface ToolCall {
  readonly index: number;
  readonly id: string;
  readonly type: "function";
  readonly function: JsonFields;
  readonly extra_content?: JsonFields;
}

/** In the form in which clients send one. */
interface Image {
  readonly index: number;
  readonly type: "image_url";
  readonly image_url: JsonFields;
  readonly extra_content?: JsonFields;
}

/** One candidate of an answer, or what an event adds to it. */
export interface ReadChoice {
  readonly index: number;
  readonly finishReason: string | null;
  readonly said: Said;
}

/** The beginning of every answer. */
function nothingTold(): Told {
  return {
    idPrefix: undefined,
    counts: new Map(),
    hasSpoken: false,
    hasThought: false,
    hasFinished: false,
  };
}

/**
 * Reads one candidate, https://ai.google.dev/api/generate-content#candidate, and remembers it. `idPrefix` begins the
 * ids of calls that came without one. Throws AnswerError.
 */
function readCandidate(
  candidate: unknown,
  at: number,
  told: Told,
  idPrefix: () => string,
): ReadChoice {
  if (!isJsonObject(candidate)) throw new AnswerError("a candidate is not an object");
  const index = choiceIndex(candidate["index"], at);
  const content = candidate["content"] ?? {};
  const parts = isJsonObject(content) ? (content["parts"] ?? []) : undefined;
  if (!Array.isArray(parts)) throw new AnswerError("a candidate has no list of parts");
  const hasBegun = told.counts.has(index);
  const before = told.counts.get(index) ?? { calls: 0, images: 0 };
  const said: Said = {
    ...(!hasBegun && { role: "assistant" }),
    ...saidIn(parts, (call) => `${idPrefix()}_${index}_${call}`, before),
  };
  const calls = before.calls + (said.tool_calls?.length ?? 0);
  told.counts.set(index, { calls, images: before.images + (said.images?.length ?? 0) });
  const hasAnswered = told.hasSpoken || told.hasThought;
  const finishReason = finishReasonOf(candidate["finishReason"], calls > 0, hasAnswered);
  // Only now: what comes with its end has reached nobody yet, and another route may do better.
  told.hasSpoken ||= [said.content, said.tool_calls, said.images].some((it) => it !== undefined);
  told.hasThought ||= said.reasoning_content !== undefined;
  told.hasFinished ||= finishReason !== null;
  return { index, finishReason, said };
}

function finishReasonOf(reason: unknown, calledTool: boolean, hasAnswered: boolean): string | null {
  if (UNFINISHED.has(reason)) return null;
  if (!hasAnswered && MODEL_FAILURES.has(reason))
    throw new IsolatedFailureError("the model could not answer");
  if (reason === "STOP") return calledTool ? "tool_calls" : "stop";
  return FINISH_REASONS.get(reason) ?? String(reason);
}

/** What the parts say together. Parts of unknown kinds say nothing. */
function saidIn(
  parts: readonly unknown[],
  idOf: (callIndex: number) => string,
  before: Counts,
): Said {
  let content = "";
  let reasoning = "";
  let signature: JsonFields | undefined;
  const calls: ToolCall[] = [];
  const images: Image[] = [];
  for (const part of parts) {
    if (!isJsonObject(part)) throw new AnswerError("a part is not an object");
    const { text, thought, functionCall, inlineData } = part;
    const signed = extraContentOf(part["thoughtSignature"]);
    if (isJsonObject(functionCall)) {
      const index = before.calls + calls.length;
      calls.push({
        ...toolCallOf(functionCall, index, idOf),
        ...(signed && { extra_content: signed }),
      });
      continue;
    }
    const url = isJsonObject(inlineData) ? imageUrlOf(inlineData) : undefined;
    if (url !== undefined) {
      // Those of a thought are drafts, of which the last is drawn once more for the answer.
      if (thought === true) continue;
      const index = before.images + images.length;
      const image = { index, type: "image_url", image_url: { url } } as const;
      images.push({ ...image, ...(signed && { extra_content: signed }) });
      continue;
    }
    if (typeof text === "string" && thought === true) reasoning += text;
    else if (typeof text === "string") content += text;
    signature = signed ?? signature;
  }
  return {
    ...(content !== "" && { content }),
    ...(reasoning !== "" && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(images.length > 0 && { images }),
    ...(signature && { extra_content: signature }),
  };
}

/**
 * Where Google's own OpenAI-compatible interface has the signature of a thought: a client that sends back the message,
 * the call or the image that it got returns it, as https://ai.google.dev/gemini-api/docs/thought-signatures demands.
 */
function extraContentOf(signature: unknown): JsonFields | undefined {
  if (typeof signature !== "string" || signature === "") return undefined;
  return { google: { thought_signature: signature } };
}

function toolCallOf(
  call: JsonFields,
  index: number,
  idOf: (callIndex: number) => string,
): ToolCall {
  const { id, name, args = {} } = call;
  if (typeof name !== "string") throw new AnswerError("a call has no name");
  return {
    index,
    id: typeof id === "string" && id !== "" ? id : idOf(index),
    type: "function",
    function: { name, arguments: answerText(args ?? {}) },
  };
}

/** Other media have no place in a chat's answer. */
function imageUrlOf({ mimeType, data }: JsonFields): string | undefined {
  if (typeof mimeType !== "string" || typeof data !== "string") return undefined;
  return mimeType.startsWith("image/") ? `data:${mimeType};base64,${data}` : undefined;
}
