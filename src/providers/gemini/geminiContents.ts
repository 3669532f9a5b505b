import type { RequestMessage } from "../../contract/chat/chatRequestBody.ts";
import { exactReader, type ReadJson } from "../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import {
  partsOf,
  picturesOf,
  textsOf,
  unfit,
  unfitPart,
  type ChatPart,
  type PartSource,
} from "../chat/chatParts.ts";
import { refuseRecording } from "../chat/chatFields.ts";
import { answeredCallOf, argumentsOf, toolCallsOf } from "../chat/chatTools.ts";
import { demandsSignatures, takesMediaInResults } from "./geminiModel.ts";
import { UnsupportedRequestError } from "../provider.ts";

/** What is carried from message to message. */
interface Reading {
  readonly model: string;
  /** Of the calls made so far, by their ids. */
  readonly callNames: Map<string, string>;
  readonly readJson: ReadJson;
}

/** One part of a content: https://ai.google.dev/api/caching#Part */
type Part = JsonFields;

/** What is said in one go. The results of calls are the user's too, and stand in a content of their own. */
interface Content {
  readonly role: "user" | "model";
  readonly parts: Part[];
}

/**
 * Stands for the signature of a call or a picture that the model did not make itself, or whose client dropped it, as
 * https://ai.google.dev/gemini-api/docs/thought-signatures#faqs says.
 */
const SIGNATURE_OF_OTHERS = "skip_thought_signature_validator";
/** Files that were uploaded with the operator's key: one caller may not name what another brought there. */
const STORED_FILES_HOST = "generativelanguage";
/** An address needs the type of what is there, and its ending is all that tells it. */
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
 * The conversation: instructions apart, wherever they stood, and what one side says in a row together. A text of
 * nothing is left out. Throws UnsupportedRequestError for what the interface cannot say.
 */
export function geminiContents(
  messages: readonly RequestMessage[],
  model: string,
): { contents: readonly Content[]; systemInstruction: { parts: readonly Part[] } | undefined } {
  const instructions: Part[] = [];
  const said: { speaker: RequestMessage["role"]; content: Content }[] = [];
  const reading: Reading = { model, callNames: new Map(), readJson: exactReader() };
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`;
    const { role } = message;
    if (role === "system" || role === "developer") {
      instructions.push(...textsOf(message, path).flatMap(textParts));
      continue;
    }
    const parts = partsSaid(message, path, reading);
    const last = said.at(-1);
    if (last?.speaker === role) last.content.parts.push(...parts);
    else if (parts.length > 0) {
      said.push({
        speaker: role,
        content: { role: role === "assistant" ? "model" : "user", parts },
      });
    }
  }
  const contents = said.map(({ content }) => content);
  const hasInstructions = instructions.length > 0;
  // Instructions alone are an answerable request elsewhere; here somebody must have said something.
  if (contents.length === 0) {
    const parts = hasInstructions ? instructions : [{ text: "" }];
    return { contents: [{ role: "user", parts }], systemInstruction: undefined };
  }
  return { contents, systemInstruction: hasInstructions ? { parts: instructions } : undefined };
}

function partsSaid(message: RequestMessage, path: string, reading: Reading): Part[] {
  const { role } = message;
  if (role === "assistant") return assistantParts(message, path, reading);
  if (role === "tool") return [resultPart(message, path, reading)];
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
      if (!AUDIO_FORMAT.test(part.format)) throw unfit(`${part.path}.input_audio.format`);
      return [
        { inlineData: { mimeType: `audio/${part.format.toLowerCase()}`, data: part.base64 } },
      ];
  }
}

/** What is at an address, Google fetches: https://ai.google.dev/gemini-api/docs/file-input-methods */
function sourcePart(source: PartSource, path: string): Part {
  if (source.kind === "data") {
    return { inlineData: { mimeType: source.mediaType, data: source.base64 } };
  }
  const url = URL.canParse(source.url) ? new URL(source.url) : undefined;
  if (url === undefined || url.hostname.includes(STORED_FILES_HOST)) throw unfit(path);
  const mimeType = MEDIA_TYPES.get(/\.(\w+)$/.exec(url.pathname)?.[1]?.toLowerCase() ?? "");
  return { fileData: { mimeType, fileUri: source.url } };
}

/** Its reasoning stays behind: thoughts come back as signatures only, on what was said or called after them. */
function assistantParts(
  message: RequestMessage,
  path: string,
  { model, callNames, readJson }: Reading,
): Part[] {
  const texts = textsOf(message, path).flatMap(textParts);
  refuseRecording(message, path);
  const last = texts.pop();
  if (last) texts.push(signed(last, signatureOf(message)));
  const standIn = demandsSignatures(model) ? SIGNATURE_OF_OTHERS : undefined;
  const pictures = picturesOf(message, path).map(({ source, own = {}, path: at }) =>
    signed(sourcePart(source, at), signatureOf(own) ?? standIn),
  );
  const calls = toolCallsOf(message, path).map((call, index) => {
    callNames.set(call.id, call.name);
    return {
      functionCall: { id: call.id, name: call.name, args: argumentsOf(call, readJson) },
      // Of calls made at once only the first bears one.
      thoughtSignature: signatureOf(call.own) ?? (index === 0 ? standIn : undefined),
    };
  });
  return [...texts, ...pictures, ...calls];
}

function signed(part: Part, thoughtSignature: string | undefined): Part {
  return { ...part, thoughtSignature };
}

/** Where Google's own OpenAI-compatible interface has it: clients send back what they got. */
function signatureOf(own: object): string | undefined {
  const { extra_content: extra } = own as { extra_content?: unknown };
  const signature = fieldsOf(fieldsOf(extra)["google"])["thought_signature"];
  return typeof signature === "string" && signature !== "" ? signature : undefined;
}

/** The interface wants the function's name, which the convention says only in the call. */
function resultPart(message: RequestMessage, path: string, reading: Reading): Part {
  const { model, callNames, readJson } = reading;
  const id = answeredCallOf(message, path);
  const name = callNames.get(id);
  if (name === undefined)
    throw new UnsupportedRequestError(`${path}.tool_call_id names no call before it`);
  const said = partsOf(message, path);
  const text = said.map((part) => (part.kind === "text" ? part.text : "")).join("");
  const media = said.flatMap((part) => (part.kind === "text" ? [] : [resultMedia(part, model)]));
  const parts = media.length > 0 ? media : undefined;
  return { functionResponse: { id, name, response: resultObject(text, readJson), parts } };
}

/** A result takes pictures and documents in the request itself only: https://ai.google.dev/api/caching#FunctionResponsePart */
function resultMedia(part: ChatPart, model: string): Part {
  const isFit = part.kind === "image" || part.kind === "file";
  if (!isFit || part.source.kind !== "data" || !takesMediaInResults(model)) {
    throw unfitPart(part.path, part.own?.["type"]);
  }
  return sourcePart(part.source, part.path);
}

/** A result must be an object; "output" is where any other stands: https://ai.google.dev/api/caching#FunctionResponse */
function resultObject(text: string, readJson: ReadJson): JsonFields {
  // Most results are plain words, and what is no object need not be read.
  if (!/^\s*\{/.test(text)) return { output: text };
  try {
    const value: unknown = readJson(text);
    if (isJsonObject(value)) return value;
  } catch {
    // It only begins like one.
  }
  return { output: text };
}
