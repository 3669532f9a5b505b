import { geminiEvents, readGeminiAnswer, readGeminiUsage } from "./geminiAnswer.ts";
import {
  type ProviderAdapter,
  UnsupportedRequestError,
  type ChatCall,
  type EncodedRequest,
  type NameRule,
} from "../provider.ts";
import type { ChatRequestBody } from "../../contract/chat/chatRequestBody.ts";
import { fieldsOf, isJsonObject, type JsonFields, isGiven } from "../../lib/json.ts";
import { bodyWithOthers, refuseOtherAnswers } from "../chat/chatParts.ts";
import {
  formatInstruction,
  formatOf,
  toolChoiceOf,
  toolsOf,
  type ChatToolChoice,
} from "../chat/chatTools.ts";
import { mapSubschemas, parametersOf } from "../chat/toolSchemas.ts";
import { geminiContents, takesFormatWithTools, thinkingConfigOf } from "./geminiContents.ts";
import { geminiEmbeddings, modelPath } from "./geminiEmbeddings.ts";

/** https://ai.google.dev/api/caching#FunctionDeclaration */
const NAMES: NameRule = {
  charactersMax: 64,
  foreign: /[^A-Za-z0-9_.:-]/gu,
  start: /^[A-Za-z_]/,
};

/**
 * The generateContent interface of the Gemini API: https://ai.google.dev/api/generate-content. The native counterpart
 * of the responses interface is not served.
 */
export const gemini: ProviderAdapter = {
  // Never `?key=`, because URLs are logged: https://ai.google.dev/gemini-api/docs/api-key
  headers: (apiKey) => (apiKey === undefined ? {} : { "x-goog-api-key": apiKey }),
  chat: {
    encode: encodeGeminiRequest,
    read: readGeminiAnswer,
    usage: { name: "usageMetadata", read: readGeminiUsage },
    events: geminiEvents,
    eventsStandAlone: false,
    supportsEverything: false,
    takesStop: () => true,
    takes: {
      hasManyServers: false,
      picturesInResults: true,
      toolNames: NAMES,
    },
  },
  responses: undefined,
  messages: undefined,
  embeddings: geminiEmbeddings,
};

/** Deeper schemas are left as they are. */
const SCHEMA_LEVELS_MAX = 100;

/**
 * Native fields that a caller may not set. Caches and instruction files belong to the operator's account.
 * `generation_config` would bypass the check of HELD_SETTINGS.
 */
const REFUSED_FIELDS = [
  "cachedContent",
  "cached_content",
  "systemInstruction",
  "system_instruction",
  "generation_config",
];
/**
 * Members of generationConfig that decide the hold; callers use `n` and `max_tokens`. Google reads both spellings.
 */
const HELD_SETTINGS = ["candidateCount", "candidate_count", "maxOutputTokens", "max_output_tokens"];

/**
 * Encodes a chat for https://ai.google.dev/api/generate-content. Fields without a counterpart are left out:
 * verbosity, reasoningSummary, logprobs, logit_bias, user, metadata, parallel_tool_calls. Numbers in schemas become
 * doubles, as at Google: https://protobuf.dev/reference/protobuf/google.protobuf/#value
 */
function encodeGeminiRequest(call: ChatCall): EncodedRequest {
  const { body, stream } = call.request;
  refuseOwnFields(body);
  refuseOtherAnswers(body, ["image"]);
  const asText = formatInText(body, call.model);
  const { contents, systemInstruction } = geminiContents(body.messages, call.model, asText);
  const fields = {
    contents,
    systemInstruction,
    ...toolFields(body),
    generationConfig: generationConfigOf(call),
  };
  const action = stream ? "streamGenerateContent?alt=sse" : "generateContent";
  return { path: `/${modelPath(call.model)}:${action}`, body: bodyWithOthers(call, fields) };
}

/**
 * Before Gemini 3 a request with tools may not set the form of its answer. Returns the instruction that replaces it;
 * undefined if none is needed.
 */
function formatInText(body: ChatRequestBody, model: string): string | undefined {
  const format = formatOf(body);
  if (format === undefined || takesFormatWithTools(model)) return undefined;
  if (toolsOf(withoutOwnTools(body).body).length === 0) return undefined;
  return formatInstruction(format);
}

function refuseOwnFields(body: JsonFields): void {
  for (const name of REFUSED_FIELDS) {
    if (isGiven(body[name])) throw new UnsupportedRequestError(`${name} is not supported`);
  }
}

/**
 * The parameters are JSON Schemas, so they go into `parametersJsonSchema`: `parameters` refuses many of their
 * keywords.
 */
function toolFields(given: ChatRequestBody): JsonFields {
  const { own, body } = withoutOwnTools(given);
  const choice = toolChoiceOf(body);
  const tools = toolsOf(body);
  if (tools.length === 0) return own.length > 0 ? { tools: own } : {};
  const functionDeclarations = tools.map(({ name, description, parameters }) => ({
    name,
    description,
    parametersJsonSchema: parameters && geminiSchema(parametersOf(parameters)),
  }));
  const declared = [...own, { functionDeclarations }];
  if (choice === undefined) return { tools: declared };
  const functionCallingConfig = callingConfigOf(choice);
  return { tools: declared, toolConfig: { functionCallingConfig } };
}

/** Google's own tools whose use its answers count. */
const OWN_TOOLS: ReadonlyMap<string, string> = new Map([
  ["google_search", "googleSearch"],
  ["googleSearch", "googleSearch"],
  ["google_maps", "googleMaps"],
  ["googleMaps", "googleMaps"],
]);

/** Takes Google's own tools, in its form or with a type, out of the list. Other tools of Google are left there, and refused. */
function withoutOwnTools(body: ChatRequestBody): {
  readonly own: readonly JsonFields[];
  readonly body: ChatRequestBody;
} {
  const { tools }: JsonFields = body;
  if (!Array.isArray(tools)) return { own: [], body };
  const own: JsonFields[] = [];
  const others = (tools as readonly unknown[]).filter((tool) => {
    const { type, ...fields } = fieldsOf(tool);
    const [first = ""] = Object.keys(fields);
    const name = OWN_TOOLS.get(typeof type === "string" ? type : first);
    if (name === undefined || Object.keys(fields).length > 1) return true;
    own.push({ [name]: fieldsOf(fields[first]) });
    return false;
  });
  return { own, body: own.length > 0 ? ({ ...body, tools: others } as ChatRequestBody) : body };
}

/**
 * https://ai.google.dev/api/caching#FunctionCallingConfig. Of the modes that force no call, only VALIDATED takes
 * names.
 */
function callingConfigOf(choice: ChatToolChoice): JsonFields {
  if (choice.kind === "tool") return { mode: "ANY", allowedFunctionNames: [choice.name] };
  if (choice.kind === "allowed") {
    return { mode: choice.isRequired ? "ANY" : "VALIDATED", allowedFunctionNames: choice.names };
  }
  return { mode: { auto: "AUTO", none: "NONE", required: "ANY" }[choice.kind] };
}

/** The caller's own generationConfig members win over translated fields. */
function generationConfigOf({
  request,
  model,
  outputTokensBound,
  outputTokensMax,
}: ChatCall): JsonFields | undefined {
  const { body, stop, choiceCount } = request;
  const format = formatInText(body, model) === undefined ? formatOf(body) : undefined;
  const translated = {
    candidateCount: choiceCount > 1 ? choiceCount : undefined,
    maxOutputTokens: outputTokensBound,
    temperature: body.temperature,
    topP: body.top_p,
    stopSequences: stop.length > 0 ? stop : undefined,
    seed: numberOf(body, "seed"),
    // Many clients send a zero, which is the default. Most models refuse the field.
    presencePenalty: numberOf(body, "presence_penalty") || undefined,
    frequencyPenalty: numberOf(body, "frequency_penalty") || undefined,
    responseModalities: modalitiesOf(body),
    responseMimeType: format && "application/json",
    responseJsonSchema: format?.kind === "schema" ? geminiSchema(format.schema) : undefined,
    thinkingConfig: thinkingConfigOf(model, body.reasoning_effort ?? undefined, outputTokensMax),
  };
  const given = Object.entries(translated).filter(([, value]) => isGiven(value));
  const settings = { ...Object.fromEntries(given), ...ownSettings(body) };
  return Object.keys(settings).length > 0 ? settings : undefined;
}

/**
 * A schema in the subset that the interface reads: https://ai.google.dev/api/generate-content#v1beta.GenerationConfig. It
 * allows nothing beside a reference, so a reference with a description becomes the only variant of a schema. A schema that
 * needs no change is returned itself; none is changed in place.
 */
function geminiSchema(schema: JsonFields): JsonFields {
  return subsetOf(schema, 0) as JsonFields;
}

function subsetOf(schema: unknown, level: number): unknown {
  if (!isJsonObject(schema) || level > SCHEMA_LEVELS_MAX) return schema;
  const inner = mapSubschemas(schema, (value) => subsetOf(value, level + 1));
  const { $ref: reference, ...beside } = inner;
  const isAlone = Object.keys(beside).every((key) => key.startsWith("$"));
  if (reference === undefined || isAlone) return inner;
  return { ...beside, anyOf: [{ $ref: reference }] };
}

function modalitiesOf({ modalities }: JsonFields): readonly string[] | undefined {
  if (!Array.isArray(modalities) || !modalities.includes("image")) return undefined;
  return modalities.map((mode) => String(mode).toUpperCase());
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
