import { bearsContent } from "../../contract/chat/chatAnswer.ts";
import { isMissingFinishReason, isUnknownFinishReason } from "../../contract/chat/finishReason.ts";
import { largerCounts, type OtherCounts } from "../../contract/figures.ts";
import { readChatUsage, type Usage } from "../../contract/usage.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { sha256 } from "../../lib/sha256.ts";
import { parseAnswer } from "../reportedFailure.ts";
import {
  choiceList,
  type ChatReply,
  type ReadChatEvent,
  AnswerError,
  answerText,
  choiceIndex,
  IsolatedFailureError,
  withoutIndex,
} from "../provider.ts";

/** Characters of the response id in a generated call id. Other providers accept ids of at most 40 characters. */
const ID_CHARS_MAX = 24;

/** Reads a whole GenerateContentResponse: https://ai.google.dev/api/generate-content#generatecontentresponse */
export function readGeminiAnswer(text: string): ChatReply {
  const { choices, usage, isPartial, reported } = readAnswer(text, initialState());
  return {
    completion: {
      choices: choices.map(({ index, finishReason, delta }) => ({
        index,
        finish_reason: finishReason,
        message: messageOf(delta),
      })),
      usage: reported,
    },
    usage,
    isUsageEarly: isPartial && usage !== undefined,
  };
}

/** The usage of a complete answer with content, from its `usageMetadata`. */
export function readGeminiUsage(metadata: unknown): Usage | undefined {
  const { usage, isPartial } = usageOf(metadata, { hasContent: true });
  return isPartial ? undefined : usage;
}

function messageOf({ tool_calls: calls, images, ...delta }: Delta): JsonFields {
  return {
    content: "",
    ...delta,
    ...(calls && { tool_calls: calls.map(withoutIndex) }),
    ...(images && { images: images.map(withoutIndex) }),
  };
}

/**
 * Reads a stream. Each event is a response with what is new since the last event. There is no terminator: the stream
 * ends after the finish reason. The usage of an event counts everything so far, so it is early before the end.
 */
export function geminiEvents(): ReadChatEvent {
  const state = initialState();
  return ({ data }) => {
    if (data === "") return { kind: "nothing" };
    const { choices, usage, isPartial, reported } = readAnswer(data, state);
    if (choices.length === 0 && !usage) return { kind: "nothing" };
    const chunk = { choices: choices.flatMap(finishSeparately), usage: reported };
    const isUsageEarly = usage !== undefined && (isPartial || !state.hasFinished);
    return { kind: "chunk", chunk, usage, isUsageEarly };
  };
}

/**
 * Puts the finish reason into a chunk of its own after the content, as OpenAI does: the finish waits for its charge,
 * and clients take a call as complete only when a later chunk comes. An unknown reason stays with its content,
 * because the gateway judges it by that content.
 */
function finishSeparately({ index, finishReason, delta }: ReadChoice): readonly JsonFields[] {
  const hasContent = bearsContent({ delta: { ...delta }, finish_reason: null });
  if (finishReason === null || !hasContent || isUnknownFinishReason(finishReason)) {
    return [{ index, finish_reason: finishReason, delta }];
  }
  return [
    { index, finish_reason: null, delta },
    { index, finish_reason: finishReason, delta: {} },
  ];
}

function readAnswer(
  text: string,
  state: StreamState,
): ReadUsage & { choices: readonly ReadChoice[] } {
  const answer = parseAnswer(text);
  const candidates = choiceList(answer["candidates"]);
  // A blocked prompt has no candidates. The provider bills it, so it is an answer whose content was filtered.
  const found =
    candidates.length === 0 && isBlocked(answer["promptFeedback"])
      ? [{ finishReason: "PROHIBITED_CONTENT" }]
      : candidates;
  const idPrefix = (): string => (state.idPrefix ??= idPrefixOf(answer["responseId"], text));
  const choices = found.map((candidate, at) => readCandidate(candidate, at, state, idPrefix));
  // An event of a stream repeats what the tools did, or has it alone.
  state.searches = largerCounts(state.searches, searchesOf(found, answer["modelVersion"]));
  return { choices, ...usageOf(answer["usageMetadata"], state) };
}

/** https://ai.google.dev/api/generate-content#PromptFeedback */
function isBlocked(feedback: unknown): boolean {
  return isJsonObject(feedback) && typeof feedback["blockReason"] === "string";
}

/** The beginning of the ids of all calls of one answer. The next answer has another one. */
function idPrefixOf(responseId: unknown, text: string): string {
  const own = typeof responseId === "string" ? responseId.replace(/[^\w-]/g, "") : "";
  return `call_${(own || sha256(text).toHex()).slice(0, ID_CHARS_MAX)}`;
}

type UsageState = Pick<StreamState, "hasContent"> & Partial<StreamState>;

interface ReadUsage {
  readonly usage: Usage | undefined;
  /** The prompt and the reasoning are counted, the content is not counted yet. */
  readonly isPartial: boolean;
  /** The usage details that the client gets. */
  readonly reported: JsonFields | undefined;
}

/**
 * Google counts reasoning apart from the candidates, results of its own tools apart from the prompt, and cached
 * tokens as part of the prompt: https://ai.google.dev/api/generate-content#UsageMetadata. JSON leaves out a count of
 * zero, and can leave out the count of the candidates: then it is the rest of the total. If there is content and no
 * rest, the count is not known yet.
 */
function usageOf(
  metadata: unknown,
  { hasContent, hasImages = false, searches }: UsageState,
): ReadUsage {
  const found = fieldsOf(metadata);
  const reasoningTokens = countOf(found["thoughtsTokenCount"] ?? 0);
  const prompt =
    countOf(found["promptTokenCount"]) + countOf(found["toolUsePromptTokenCount"] ?? 0);
  const rest = countOf(found["totalTokenCount"]) - prompt - reasoningTokens;
  const answered = found["candidatesTokenCount"] ?? (rest > 0 ? rest : undefined);
  const tokens = readChatUsage({
    prompt_tokens: prompt,
    completion_tokens: countOf(answered ?? 0) + reasoningTokens,
    prompt_tokens_details: {
      cached_tokens: found["cachedContentTokenCount"],
      ...modalities(found["promptTokensDetails"], found["toolUsePromptTokensDetails"]),
      cached_tokens_details: modalities(found["cacheTokensDetails"]),
    },
    completion_tokens_details: answeredModalities(found, hasImages, answered),
  });
  const reported = { completion_tokens_details: { reasoning_tokens: reasoningTokens } };
  return {
    usage: tokens && { ...tokens, ...searches },
    isPartial: hasContent && answered === undefined,
    reported: tokens && reported,
  };
}

/** An answer with pictures and without details has only tokens of pictures. */
function answeredModalities(found: JsonFields, hasImages: boolean, answered: unknown): JsonFields {
  const details = found["candidatesTokensDetails"] ?? found["responseTokensDetails"];
  return hasImages && !Array.isArray(details) ? { image_tokens: answered } : modalities(details);
}

/** The tokens of audio and images in lists of https://ai.google.dev/api/generate-content#v1beta.ModalityTokenCount */
function modalities(...lists: readonly unknown[]): JsonFields {
  const counts = { AUDIO: 0, IMAGE: 0 };
  for (const one of lists.flat()) {
    const { modality, tokenCount } = fieldsOf(one);
    if (modality !== "AUDIO" && modality !== "IMAGE") continue;
    counts[modality] += countOf(tokenCount ?? 0) || 0;
  }
  return { audio_tokens: counts.AUDIO, image_tokens: counts.IMAGE };
}

/** Models before Gemini 3 bill each answer that was grounded, later ones each query. */
const BILLED_BY_ANSWER = /^(?:models\/)?gemini-[12](?:\.|-)/;

/**
 * What Google's tools did for the candidates: https://ai.google.dev/gemini-api/docs/google-search and
 * https://ai.google.dev/gemini-api/docs/maps-grounding
 */
function searchesOf(candidates: readonly unknown[], model: unknown): OtherCounts {
  let webSearches = 0;
  let mapSearches = 0;
  for (const candidate of candidates) {
    const grounding = fieldsOf(fieldsOf(candidate)["groundingMetadata"]);
    const { webSearchQueries, imageSearchQueries, groundingChunks } = grounding;
    const queries = [webSearchQueries, imageSearchQueries].filter(Array.isArray).flat().length;
    const chunks: readonly unknown[] = Array.isArray(groundingChunks) ? groundingChunks : [];
    const isOfMaps = chunks.some((chunk) => isJsonObject(fieldsOf(chunk)["maps"]));
    const isOfWeb = chunks.some((chunk) => isJsonObject(fieldsOf(chunk)["web"]));
    if (isOfMaps) mapSearches += 1;
    const isAnswer = typeof model === "string" && BILLED_BY_ANSWER.test(model);
    if (isOfWeb || (queries > 0 && !isOfMaps))
      webSearches += isAnswer ? 1 : Math.max(queries, Number(isOfWeb));
  }
  return { webSearches, mapSearches };
}

/** NaN for anything but a count, so that a sum with it is no count either. */
function countOf(value: unknown): number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : Number.NaN;
}

/**
 * Mistakes of the model. Before content they are a failure, and the next route may answer. After content they are a
 * normal finish: a caller can cause them, and would get the content for nothing.
 */
const MODEL_FAILURES: ReadonlySet<unknown> = new Set([
  "MALFORMED_FUNCTION_CALL",
  "MALFORMED_RESPONSE",
  "UNEXPECTED_TOOL_CALL",
  "TOO_MANY_TOOL_CALLS",
  "MISSING_THOUGHT_SIGNATURE",
]);

interface Counts {
  readonly calls: number;
  readonly images: number;
}

/** What is known of one answer while its events come. */
export interface StreamState {
  /** Begins the generated ids of calls. */
  idPrefix: string | undefined;
  /** By candidate index. */
  readonly counts: Map<number, Counts>;
  /** A text, a call or an image has come. Such an answer always has completion tokens. */
  hasContent: boolean;
  hasImages: boolean;
  /** What Google's tools did. */
  searches: OtherCounts;
  hasReasoning: boolean;
  hasFinished: boolean;
}

/** The fields of a delta. A field without content is absent. */
export interface Delta {
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

/** An image in the form in which clients send it. */
interface Image {
  readonly index: number;
  readonly type: "image_url";
  readonly image_url: JsonFields;
  readonly extra_content?: JsonFields;
}

/** One candidate of an answer, or what one event adds to it. */
export interface ReadChoice {
  readonly index: number;
  readonly finishReason: string | null;
  readonly delta: Delta;
}

function initialState(): StreamState {
  return {
    idPrefix: undefined,
    counts: new Map(),
    hasContent: false,
    hasImages: false,
    searches: {},
    hasReasoning: false,
    hasFinished: false,
  };
}

/**
 * Reads one candidate, https://ai.google.dev/api/generate-content#candidate, and updates the state. Throws
 * AnswerError.
 */
function readCandidate(
  candidate: unknown,
  at: number,
  state: StreamState,
  idPrefix: () => string,
): ReadChoice {
  if (!isJsonObject(candidate)) throw new AnswerError("a candidate is not an object");
  const index = choiceIndex(candidate["index"], at);
  const content = candidate["content"] ?? {};
  const parts = isJsonObject(content) ? (content["parts"] ?? []) : undefined;
  if (!Array.isArray(parts)) throw new AnswerError("a candidate has no list of parts");
  const hasBegun = state.counts.has(index);
  const before = state.counts.get(index) ?? { calls: 0, images: 0 };
  const delta: Delta = {
    ...(!hasBegun && { role: "assistant" }),
    ...deltaOf(parts, (call) => `${idPrefix()}_${index}_${call}`, before),
  };
  const calls = before.calls + (delta.tool_calls?.length ?? 0);
  state.counts.set(index, { calls, images: before.images + (delta.images?.length ?? 0) });
  const hasAnswered = state.hasContent || state.hasReasoning;
  const finishReason = finishReasonOf(candidate["finishReason"], hasAnswered);
  // Set after `finishReasonOf`: content that comes with the finish was not sent to the client yet, so another route
  // may answer.
  state.hasContent ||= [delta.content, delta.tool_calls, delta.images].some(
    (it) => it !== undefined,
  );
  state.hasImages ||= delta.images !== undefined;
  state.hasReasoning ||= delta.reasoning_content !== undefined;
  state.hasFinished ||= finishReason !== null;
  return { index, finishReason, delta };
}

/** The word of https://ai.google.dev/api/generate-content#FinishReason. The gateway knows what it means. */
function finishReasonOf(reason: unknown, hasAnswered: boolean): string | null {
  if (isMissingFinishReason(reason)) return null;
  if (!hasAnswered && MODEL_FAILURES.has(reason))
    throw new IsolatedFailureError("the model could not answer");
  return String(reason);
}

/** Joins the parts. Parts of unknown kinds have no content. */
function deltaOf(
  parts: readonly unknown[],
  idOf: (callIndex: number) => string,
  before: Counts,
): Delta {
  let content = "";
  let reasoning = "";
  let signature: JsonFields | undefined;
  const calls: ToolCall[] = [];
  const images: Image[] = [];
  for (const part of parts) {
    if (!isJsonObject(part)) throw new AnswerError("a part is not an object");
    const { text, thought: isReasoning, functionCall, inlineData } = part;
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
      // Images of the reasoning are drafts. The last draft comes again in the answer.
      if (isReasoning === true) continue;
      const index = before.images + images.length;
      const image = { index, type: "image_url", image_url: { url } } as const;
      images.push({ ...image, ...(signed && { extra_content: signed }) });
      continue;
    }
    if (typeof text === "string" && isReasoning === true) reasoning += text;
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
 * The thought signature in the place where Google's own OpenAI-compatible interface has it. A client that returns its
 * message returns the signature too: https://ai.google.dev/gemini-api/docs/thought-signatures
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

/** Undefined for other media: a chat answer has no field for them. */
function imageUrlOf({ mimeType, data }: JsonFields): string | undefined {
  if (typeof mimeType !== "string" || typeof data !== "string") return undefined;
  return mimeType.startsWith("image/") ? `data:${mimeType};base64,${data}` : undefined;
}
