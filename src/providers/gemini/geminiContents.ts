import type { RequestMessage, ChatRequestBody } from "../../contract/chat/chatRequestBody.ts";
import { exactReader, type ReadJson } from "../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import {
  OPENING,
  partsOf,
  picturesOf,
  textsOf,
  type ChatPart,
  type PartSource,
  refuseRecording,
} from "../chat/chatParts.ts";
import { answeredCallOf, argumentsOf, toolCallsOf } from "../chat/chatTools.ts";
import { unsupported, UnsupportedRequestError } from "../provider.ts";

interface EncodingState {
  readonly model: string;
  /** Function names of the calls so far, by call id. */
  readonly callNames: Map<string, string>;
  readonly readJson: ReadJson;
}

/** One part of a content: https://ai.google.dev/api/caching#Part */
type Part = JsonFields;

/** Consecutive messages of one role. Results of calls have the role `user` and a content of their own. */
interface Content {
  readonly role: "user" | "model";
  readonly parts: Part[];
}

/**
 * The signature for a call or an image that another model made, or whose client dropped its signature:
 * https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
 */
const PLACEHOLDER_SIGNATURE = "skip_thought_signature_validator";
/** The host of files that were uploaded with the operator's key. A caller must not read another caller's file. */
const STORED_FILES_HOST = "generativelanguage";
/** Google needs a media type for a URL; only the file extension tells it. */
const MEDIA_TYPES: ReadonlyMap<string, string> = new Map([
  ["png", "image/png"],
  ["jpg", "image/jpeg"],
  ["jpeg", "image/jpeg"],
  ["webp", "image/webp"],
  ["gif", "image/gif"],
  ["heic", "image/heic"],
  ["heif", "image/heif"],
  ["pdf", "application/pdf"],
]);
const AUDIO_FORMAT = /^[a-z0-9.+-]{1,32}$/i;

/**
 * Encodes the conversation. All instructions go into `systemInstruction`, consecutive messages of one role are
 * joined, and empty texts are left out. Throws UnsupportedRequestError for what the interface cannot express.
 */
export function geminiContents(
  messages: readonly RequestMessage[],
  model: string,
  lastInstruction?: string,
): { contents: readonly Content[]; systemInstruction: { parts: readonly Part[] } | undefined } {
  const instructions: Part[] = [];
  const entries: { speaker: RequestMessage["role"]; content: Content }[] = [];
  const state: EncodingState = { model, callNames: new Map(), readJson: exactReader() };
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`;
    const { role } = message;
    if (role === "system" || role === "developer") {
      instructions.push(...textsOf(message, path).flatMap(textParts));
      continue;
    }
    const parts = messageParts(message, path, state);
    const last = entries.at(-1);
    if (last?.speaker === role) last.content.parts.push(...parts);
    else if (parts.length > 0) {
      entries.push({
        speaker: role,
        content: { role: role === "assistant" ? "model" : "user", parts },
      });
    }
  }
  if (lastInstruction !== undefined) instructions.push({ text: lastInstruction });
  const contents = entries.map(({ content }) => content);
  const hasInstructions = instructions.length > 0;
  // Google refuses a request that has only instructions, so they become the user's content.
  if (contents.length === 0) {
    const parts = hasInstructions ? instructions : [{ text: "" }];
    return { contents: [{ role: "user", parts }], systemInstruction: undefined };
  }
  // Google refuses a call that no content of the user precedes.
  if (contents[0]?.role === "model") contents.unshift({ role: "user", parts: [{ text: OPENING }] });
  return { contents, systemInstruction: hasInstructions ? { parts: instructions } : undefined };
}

function messageParts(message: RequestMessage, path: string, state: EncodingState): Part[] {
  const { role } = message;
  if (role === "assistant") return assistantParts(message, path, state);
  if (role === "tool") return resultParts(message, path, state);
  return partsOf(message, path).flatMap(userParts);
}

function textParts(text: string): Part[] {
  return text === "" ? [] : [{ text }];
}

function userParts(part: ChatPart): Part[] {
  switch (part.kind) {
    case "text":
      return textParts(part.text);
    case "image":
    case "file":
      return [sourcePart(part.source, part.path)];
    case "audio":
      if (!AUDIO_FORMAT.test(part.format)) throw unsupported(`${part.path}.input_audio.format`);
      return [
        { inlineData: { mimeType: `audio/${part.format.toLowerCase()}`, data: part.base64 } },
      ];
  }
}

/** Google fetches URLs itself: https://ai.google.dev/gemini-api/docs/file-input-methods */
function sourcePart(source: PartSource, path: string): Part {
  if (source.kind === "data") {
    return { inlineData: { mimeType: source.mediaType, data: source.base64 } };
  }
  const url = URL.canParse(source.url) ? new URL(source.url) : undefined;
  if (url === undefined || url.hostname.includes(STORED_FILES_HOST)) throw unsupported(path);
  const mimeType = MEDIA_TYPES.get(/\.(\w+)$/.exec(url.pathname)?.[1]?.toLowerCase() ?? "");
  return { fileData: { mimeType, fileUri: source.url } };
}

/** Leaves out the reasoning text: only its signatures return, on the text or the call that follows it. */
function assistantParts(
  message: RequestMessage,
  path: string,
  { model, callNames, readJson }: EncodingState,
): Part[] {
  const texts = textsOf(message, path).flatMap(textParts);
  refuseRecording(message, path);
  const last = texts.pop();
  if (last) texts.push(signed(last, signatureOf(message)));
  const placeholder = requiresSignatures(model) ? PLACEHOLDER_SIGNATURE : undefined;
  const pictures = picturesOf(message, path).map(({ source, own = {}, path: at }) =>
    signed(sourcePart(source, at), signatureOf(own) ?? placeholder),
  );
  const calls = toolCallsOf(message, path).map((call, index) => {
    callNames.set(call.id, call.name);
    return {
      functionCall: { id: call.id, name: call.name, args: argumentsOf(call, readJson) },
      // Of parallel calls only the first has a signature.
      thoughtSignature: signatureOf(call.own) ?? (index === 0 ? placeholder : undefined),
    };
  });
  return [...texts, ...pictures, ...calls];
}

function signed(part: Part, thoughtSignature: string | undefined): Part {
  return { ...part, thoughtSignature };
}

/** The signature, in the place where Google's own OpenAI-compatible interface has it. Clients return it unchanged. */
function signatureOf(own: object): string | undefined {
  const { extra_content: extra } = own as { extra_content?: unknown };
  const signature = fieldsOf(fieldsOf(extra)["google"])["thought_signature"];
  return typeof signature === "string" && signature !== "" ? signature : undefined;
}

/**
 * The result of a call. Google needs the function's name, which only the call has. From Gemini 3 on inline images and
 * documents are in the result (https://ai.google.dev/api/caching#FunctionResponsePart); all other media are beside it.
 */
function resultParts(message: RequestMessage, path: string, state: EncodingState): Part[] {
  const { model, callNames, readJson } = state;
  const id = answeredCallOf(message, path);
  const name = callNames.get(id);
  if (name === undefined)
    throw new UnsupportedRequestError(`${path}.tool_call_id names no call before it`);
  const given = partsOf(message, path);
  const text = given.map((part) => (part.kind === "text" ? part.text : "")).join("");
  const media = given.filter((part) => part.kind !== "text");
  const isInside = (part: ChatPart): boolean =>
    supportsMediaInResults(model) &&
    (part.kind === "image" || part.kind === "file") &&
    part.source.kind === "data";
  const inside = media.filter(isInside).flatMap(userParts);
  const parts = inside.length > 0 ? inside : undefined;
  const functionResponse = { id, name, response: resultObject(text, readJson), parts };
  return [{ functionResponse }, ...media.filter((part) => !isInside(part)).flatMap(userParts)];
}

/**
 * A result must be an object; any other value goes under "output": https://ai.google.dev/api/caching#FunctionResponse
 */
function resultObject(text: string, readJson: ReadJson): JsonFields {
  // A text that does not begin as an object is not parsed.
  if (!/^\s*\{/.test(text)) return { output: text };
  try {
    const value: unknown = readJson(text);
    if (isJsonObject(value)) return value;
  } catch {
    // The text is not JSON.
  }
  return { output: text };
}

type Effort = NonNullable<ChatRequestBody["reasoning_effort"]>;

/** How a model takes its reasoning effort: as a level, as a budget of tokens, or not at all. */
type ReasoningControl = "levels" | "budget" | "none";

/**
 * https://ai.google.dev/gemini-api/docs/openai#thinking. There is nothing above `high`. Reasoning of Gemini 3 cannot be turned
 * off.
 */
const LEVELS = {
  none: "MINIMAL",
  minimal: "MINIMAL",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  xhigh: "HIGH",
  max: "HIGH",
} as const satisfies Record<Effort, string>;
const BUDGETS: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576,
};
/** The bound of an answer counts reasoning too. This share of it stays for the answer. */
const ANSWER_SHARE = 0.25;
/** Gemini 2.5 Pro always reasons, with this budget at least; Flash-Lite takes no smaller one than its own, but 0. */
const PRO_BUDGET_MIN = 128;
const LITE_BUDGET_MIN = 512;

/**
 * The effort in the form that the model takes: https://ai.google.dev/gemini-api/docs/thinking. The wrong form is a
 * 400, so an unknown model gets none. A budget leaves room for the answer within `outputTokensMax`. The reasoning is always included: it costs nothing more and ends the silence
 * before the answer.
 */
export function thinkingConfigOf(
  model: string,
  effort: Effort | undefined,
  outputTokensMax: number,
): JsonFields | undefined {
  if (effort === undefined) return undefined;
  switch (reasoningControlOf(model)) {
    case "levels": {
      const level = LEVELS[effort];
      // Gemini 3 Pro has only low and high, its successors no minimal.
      const isFirst = /\bgemini-3-pro\b/.test(model) && level === "MEDIUM";
      const isLow = /-pro\b/.test(model) && level === "MINIMAL";
      const thinkingLevel = isFirst ? "HIGH" : isLow ? "LOW" : level;
      return { thinkingLevel, includeThoughts: true };
    }
    case "budget":
      return { thinkingBudget: budgetOf(model, effort, outputTokensMax), includeThoughts: true };
    case "none":
      return undefined;
  }
}

function budgetOf(model: string, effort: Effort, outputTokensMax: number): number {
  const most = Math.floor(outputTokensMax * (1 - ANSWER_SHARE));
  const budget = Math.min(BUDGETS[effort], most);
  if (/-pro\b/.test(model)) return Math.max(budget, PRO_BUDGET_MIN);
  return /-lite\b/.test(model) && budget < LITE_BUDGET_MIN ? 0 : budget;
}

/** From Gemini 3 on a call without its thought signature is a 400. */
function requiresSignatures(model: string): boolean {
  return reasoningControlOf(model) === "levels";
}

/** From Gemini 3 on a request with tools may set the form of its answer: https://ai.google.dev/gemini-api/docs/structured-output */
export function takesFormatWithTools(model: string): boolean {
  return reasoningControlOf(model) === "levels";
}

/**
 * From Gemini 3 on a call's result may have images and documents:
 * https://ai.google.dev/gemini-api/docs/function-calling#multimodal
 */
function supportsMediaInResults(model: string): boolean {
  return reasoningControlOf(model) === "levels";
}

/** Names such as `gemini-flash-latest` are of the newest generation. The image models of Gemini 2.5 do not reason. */
function reasoningControlOf(model: string): ReasoningControl {
  const name = model.replace(/^models\//, "");
  if (/^gemini-[a-z-]+-latest$/.test(name)) return "levels";
  const [, major, minor = "0"] = /^gemini-(\d{1,3})(?:\.(\d{1,3}))?(?:-|$)/.exec(name) ?? [];
  if (major === undefined) return "none";
  if (Number(major) >= 3) return "levels";
  const isImageModel = /-image(?:-|$)/.test(name);
  return Number(major) === 2 && Number(minor) >= 5 && !isImageModel ? "budget" : "none";
}
