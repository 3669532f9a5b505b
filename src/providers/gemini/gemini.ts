import { geminiEvents, readGeminiAnswer, readGeminiUsage } from "./geminiAnswer.ts";
import {
  type ProviderAdapter,
  UnsupportedRequestError,
  type ChatCall,
  type EncodedRequest,
} from "../provider.ts";
import type { ChatRequestBody } from "../../contract/chat/chatRequestBody.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { bodyWithOthers, isGiven, refuseOtherAnswers } from "../chat/chatFields.ts";
import { formatOf, toolChoiceOf, toolsOf, type ChatToolChoice } from "../chat/chatTools.ts";
import { geminiContents } from "./geminiContents.ts";
import { thinkingConfigOf } from "./geminiModel.ts";

/**
 * The generateContent interface of the Gemini API, https://ai.google.dev/api/generate-content. It has a native
 * interface of its own for what the responses interface does, and that one is not served.
 */
export const gemini: ProviderAdapter = {
  // Never `?key=`: an address is written to logs, https://ai.google.dev/gemini-api/docs/api-key
  headers: (apiKey) => (apiKey === undefined ? {} : { "x-goog-api-key": apiKey }),
  chat: {
    encode: encodeGeminiRequest,
    read: readGeminiAnswer,
    usage: { name: "usageMetadata", read: readGeminiUsage },
    events: geminiEvents,
    eventsStandAlone: false,
    takesAll: false,
    takesStop: true,
  },
  responses: undefined,
};

/**
 * Fields of the interface's own that a caller may not write, although others pass as they are: a cache and files in
 * instructions belong to the operator's account and not to one caller, a tier has a price of its own, and the other
 * spelling of generationConfig would escape the check of what is held.
 */
const REFUSED_FIELDS = [
  "cachedContent",
  "cached_content",
  "serviceTier",
  "systemInstruction",
  "system_instruction",
  "generation_config",
];
/** In generationConfig, what decides the hold: `n` and the bound say it. The interface reads both spellings. */
const HELD_SETTINGS = ["candidateCount", "candidate_count", "maxOutputTokens", "max_output_tokens"];

/**
 * A chat request in the words of https://ai.google.dev/api/generate-content. Left out is what has no counterpart:
 * verbosity, reasoningSummary, logprobs, logit_bias, user, metadata, parallel_tool_calls. Numbers inside of schemas
 * become doubles, as they would there: https://protobuf.dev/reference/protobuf/google.protobuf/#value
 */
function encodeGeminiRequest(call: ChatCall): EncodedRequest {
  const { body, stream } = call.request;
  refuseOwnFields(body);
  refuseOtherAnswers(body);
  const { contents, systemInstruction } = geminiContents(body.messages, call.model);
  const fields = {
    contents,
    systemInstruction,
    ...toolFields(body),
    generationConfig: generationConfigOf(call),
  };
  const action = stream ? "streamGenerateContent?alt=sse" : "generateContent";
  return { path: `/${modelPath(call.model)}:${action}`, body: bodyWithOthers(call.object, fields) };
}

/**
 * `models/` stands before a name that does not say itself that it is a tuned model's, as in Google's own clients.
 * What follows is one segment, whatever is in it: a name can lead to no other method or host.
 */
function modelPath(model: string): string {
  const [, collection = "models/", name = ""] =
    /^(models\/|tunedModels\/)?(.*)$/s.exec(model) ?? [];
  return collection + encodeURIComponent(name);
}

function refuseOwnFields(body: JsonFields): void {
  for (const name of REFUSED_FIELDS) {
    if (isGiven(body[name])) throw new UnsupportedRequestError(`${name} is not supported`);
  }
}

/** The schemas are JSON schemas, so they go where JSON schemas are taken: `parameters` refuses much of what they say. */
function toolFields(body: ChatRequestBody): JsonFields {
  const choice = toolChoiceOf(body);
  const tools = toolsOf(body);
  if (tools.length === 0) return {};
  const functionDeclarations = tools.map(({ name, description, parameters }) => ({
    name,
    description,
    parametersJsonSchema: parameters,
  }));
  if (choice === undefined) return { tools: [{ functionDeclarations }] };
  const functionCallingConfig = callingConfigOf(choice);
  return { tools: [{ functionDeclarations }], toolConfig: { functionCallingConfig } };
}

/** https://ai.google.dev/api/caching#FunctionCallingConfig: of the modes that need no call, only one takes names. */
function callingConfigOf(choice: ChatToolChoice): JsonFields {
  if (choice.kind === "tool") return { mode: "ANY", allowedFunctionNames: [choice.name] };
  if (choice.kind === "allowed") {
    return { mode: choice.isRequired ? "ANY" : "VALIDATED", allowedFunctionNames: choice.names };
  }
  return { mode: { auto: "AUTO", none: "NONE", required: "ANY" }[choice.kind] };
}

/** What the caller sets in the interface's own words counts before what was translated. */
function generationConfigOf({
  request,
  model,
  outputTokensBound,
}: ChatCall): JsonFields | undefined {
  const { body, stop, choiceCount } = request;
  const format = formatOf(body);
  const translated = {
    candidateCount: choiceCount > 1 ? choiceCount : undefined,
    maxOutputTokens: outputTokensBound,
    temperature: body.temperature,
    topP: body.top_p,
    stopSequences: stop.length > 0 ? stop : undefined,
    seed: numberOf(body, "seed"),
    // A zero is what happens anyway, and many clients send one; most models refuse the field.
    presencePenalty: numberOf(body, "presence_penalty") || undefined,
    frequencyPenalty: numberOf(body, "frequency_penalty") || undefined,
    responseMimeType: format && "application/json",
    responseJsonSchema: format?.kind === "schema" ? format.schema : undefined,
    thinkingConfig: thinkingConfigOf(model, body.reasoning_effort ?? undefined),
  };
  const given = Object.entries(translated).filter(([, value]) => isGiven(value));
  const settings = { ...Object.fromEntries(given), ...ownSettings(body) };
  return Object.keys(settings).length > 0 ? settings : undefined;
}

function ownSettings(body: JsonFields): JsonFields {
  const own = Object.hasOwn(body, "generationConfig") ? (body["generationConfig"] ?? {}) : {};
  if (!isJsonObject(own)) throw new UnsupportedRequestError("generationConfig must be an object");
  for (const name of HELD_SETTINGS) {
    if (Object.hasOwn(own, name))
      throw new UnsupportedRequestError(`generationConfig.${name} is not supported`);
  }
  return own;
}

function numberOf(body: JsonFields, name: string): number | undefined {
  const value = body[name];
  return typeof value === "number" ? value : undefined;
}
