import { fieldsOf, isJsonObject, type JsonFields, walk } from "../lib/json.ts";
import { type ApiError, invalidRequest } from "./errors.ts";
import {
  addCounts,
  figures,
  ofEachOther,
  type ExtraName,
  type FigureName,
  type OtherCounts,
  type PriceField,
} from "./figures.ts";
import { wholeString } from "../lib/outline.ts";
import { refuseFieldsInOtherCase } from "./keyCase.ts";
import { ownValue } from "./requestFields.ts";

/** Interfaces of providers that say how much of an extra an answer used. */
export type CountedOver = "chat" | "responses" | "messages" | "gemini";

/**
 * Something that a provider may bill besides the tokens of prompt and answer, if a request asks for it. Such a request is
 * refused before anything is sent, unless the model has the prices of the extra, or `[api] allowed_tools` names it.
 * docs/reference/calls.md lists the extras.
 */
export interface Extra {
  /** The name for `[api] allowed_tools`: the type of a tool without its date, or the path of a field. */
  readonly name: string;
  readonly bills: string;
  /** The figures that it is billed by: a model sells it if it sells all of a list. Undefined: no model can sell it. */
  readonly soldBy?: readonly (readonly ExtraName[])[];
  readonly over?: readonly CountedOver[];
}

/** A tool that the provider runs. */
interface ExtraTool extends Extra {
  /** Types of the tool besides its name. */
  readonly types?: RegExp;
  /** The name of the extra that this one is a kind of. */
  readonly kindOf?: string;
  /** Passes without a price where the interface cannot charge it, because the specification of the service names it. */
  readonly passes?: true;
  /** The most that one call is held for. */
  readonly ofCall?: OtherCounts;
  /** Calls that are held for if the client sets no maximum. */
  readonly calls?: number;
  /** Whether the definition is one that the price is for. */
  readonly isPriced?: (tool: JsonFields) => boolean;
}

interface ExtraField extends Extra {
  /** Whether a value costs no more than tokens. Null and an absent field never do. */
  readonly isFree?: (value: unknown) => boolean;
}

/** Calls that are held for if the client sets no maximum. More are charged too. */
export const CALLS_DEFAULT = 20;
const IMAGE_CALLS_DEFAULT = 4;
const X_CALLS_DEFAULT = 5;
/** The most calls of the tools of a request, which is more than any answer needs. */
export const CALLS_MAX = 1000;

/**
 * What a call of `image_generation` may use. It reads the conversation with its pictures, and generates at most 6,240 tokens
 * for a picture of the highest quality, and 100 for each of three previews:
 * https://platform.openai.com/docs/guides/image-generation#cost-and-latency
 */
export const IMAGE_CALL = {
  imageToolTextTokens: 2000,
  imageToolInputTokens: 10_000,
  imageToolOutputTokens: 6540,
} as const satisfies OtherCounts;

/** Each post and profile that a search returns is billed, with parents and quoted ones: https://docs.x.ai/developers/pricing */
export const X_CALL = { xPosts: 30, xProfiles: 10 } as const satisfies OtherCounts;

const WEB_SEARCH = {
  name: "web_search",
  types: /^web_search(?:_\d{8}|_\d{4}_\d{2}_\d{2})?$/,
  bills: "each search",
  soldBy: [["webSearches"]],
  over: ["responses", "messages"],
  ofCall: { webSearches: 1 },
  passes: true,
} as const satisfies ExtraTool;

const WEB_SEARCH_PREVIEW = {
  name: "web_search_preview",
  types: /^web_search_preview(?:_\d{8}|_\d{4}_\d{2}_\d{2})?$/,
  kindOf: WEB_SEARCH.name,
  bills: "each search",
  soldBy: [["webSearchPreviews"]],
  over: ["responses"],
  ofCall: { webSearchPreviews: 1 },
  passes: true,
} as const satisfies ExtraTool;

/** A larger container has a multiple of the price. */
const isSmallContainer = (tool: JsonFields): boolean => {
  let isSmall = true;
  walk(tool, (found, key) => {
    if (key?.toLowerCase() === "memory_limit") isSmall &&= found === null || found === "1g";
    return typeof found === "object";
  });
  return isSmall;
};

/**
 * Tools that cost more than tokens. A type that is neither here nor in TOKEN_TOOLS is treated like these: vendors add
 * tools all the time, and bill most of those that they run. OpenAI: https://platform.openai.com/docs/pricing,
 * Anthropic: https://platform.claude.com/docs/en/about-claude/pricing#tool-use-pricing, OpenRouter:
 * https://openrouter.ai/docs/guides/features/server-tools, xAI: https://docs.x.ai/developers/pricing, Google:
 * https://ai.google.dev/gemini-api/docs/pricing
 */
export const extraTools: readonly ExtraTool[] = [
  WEB_SEARCH,
  WEB_SEARCH_PREVIEW,
  {
    name: "image_generation",
    bills: "tokens of an image model, or each image (xAI)",
    soldBy: [["imageToolTextTokens", "imageToolInputTokens", "imageToolOutputTokens"], ["images"]],
    over: ["responses"],
    ofCall: { ...IMAGE_CALL, images: 1 },
    calls: IMAGE_CALLS_DEFAULT,
  },
  {
    name: "code_interpreter",
    bills: "each container (OpenAI), or each call (xAI)",
    soldBy: [["codeSessions"]],
    over: ["responses"],
    ofCall: { codeSessions: 1 },
    isPriced: isSmallContainer,
  },
  {
    name: "code_execution",
    types: /^code_execution_\d{8}$/,
    bills: "the time of a container (Anthropic), or each call (xAI)",
    soldBy: [["codeSessions"]],
    over: ["responses", "messages"],
    ofCall: { codeSessions: 1 },
  },
  {
    name: "shell",
    bills: "each container, unless `environment.type` is `local`",
    soldBy: [["codeSessions"]],
    over: ["responses"],
    ofCall: { codeSessions: 1 },
    isPriced: isSmallContainer,
  },
  {
    name: "file_search",
    types: /^collections_search$/,
    bills: "each call",
    soldBy: [["fileSearches"]],
    over: ["responses"],
    ofCall: { fileSearches: 1 },
  },
  {
    name: "x_search",
    bills: "each post and each profile",
    soldBy: [["xPosts", "xProfiles"]],
    over: ["responses"],
    ofCall: X_CALL,
    calls: X_CALLS_DEFAULT,
  },
  { name: "live_search", bills: "each source" },
  {
    name: "google_search",
    types: /^googleSearch$/,
    bills: "each search",
    soldBy: [["webSearches"]],
    over: ["gemini"],
    ofCall: { webSearches: 1 },
  },
  {
    name: "google_maps",
    types: /^googleMaps$/,
    bills: "each request",
    soldBy: [["mapSearches"]],
    over: ["gemini"],
    ofCall: { mapSearches: 1 },
    calls: 1,
  },
  { name: "openrouter:web_search", bills: "each search" },
];

interface TokenTool {
  readonly types: RegExp;
  readonly runBy: "client" | "provider";
  /** Whether this definition of the tool costs tokens only. */
  readonly isFree?: (tool: JsonFields) => boolean;
}

/** The tools that cost only tokens: those that the client runs, and some of the provider's. Dated types have their date. */
const TOKEN_TOOLS: readonly TokenTool[] = [
  { types: /^(?:function|custom|namespace)$/, runBy: "client" },
  // https://platform.openai.com/docs/guides/tools
  { types: /^(?:local_shell|apply_patch|computer|computer_use_preview)$/, runBy: "client" },
  {
    types: /^shell$/,
    runBy: "client",
    isFree: ({ environment }) => fieldsOf(environment)["type"] === "local",
  },
  { types: /^(?:mcp|tool_search)$/, runBy: "provider" },
  // https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
  {
    types: /^(?:bash|computer|memory|str_replace_based_edit_tool|text_editor)_\d{8}$/,
    runBy: "client",
  },
  {
    types: /^(?:web_fetch_\d{8}|tool_search_tool_(?:bm25|regex)(?:_\d{8})?|mcp_toolset)$/,
    runBy: "provider",
  },
];

/** The only part of an answer in this list is text. */
const isOnlyText = (value: unknown): boolean =>
  Array.isArray(value) && value.every((mode) => typeof mode === "string" && /^text$/i.test(mode));
const isOneOf =
  (...values: readonly unknown[]) =>
  (value: unknown): boolean =>
    values.includes(value);

/** Interfaces whose usage has tokens by modality. */
const MODALITIES = ["chat", "responses", "gemini"] as const;

/** Audio of a prompt, which can be in any of its parts. */
const AUDIO_INPUT = {
  name: "input_audio",
  bills: "audio of the prompt",
  soldBy: [["audioInputTokens"]],
  over: MODALITIES,
} as const satisfies ExtraField;

/** Fields that cost more than tokens, or tokens of another price. A dot leads into an object. */
export const extraFields: readonly ExtraField[] = [
  AUDIO_INPUT,
  {
    name: "modalities",
    bills: "audio and images of the answer",
    soldBy: [["audioOutputTokens", "imageOutputTokens"]],
    over: MODALITIES,
    isFree: isOnlyText,
  },
  {
    name: "audio",
    bills: "audio of the answer",
    soldBy: [["audioOutputTokens"]],
    over: MODALITIES,
  },
  {
    name: "generationConfig.responseModalities",
    bills: "images of the answer (Gemini)",
    soldBy: [["imageOutputTokens"]],
    over: ["gemini"],
    isFree: isOnlyText,
  },
  {
    name: "generationConfig.response_modalities",
    bills: "the same",
    soldBy: [["imageOutputTokens"]],
    over: ["gemini"],
    isFree: isOnlyText,
  },
  { name: "web_search_options", bills: "each search" },
  {
    name: "search_parameters",
    bills: "each source (xAI)",
    isFree: (value) => fieldsOf(value)["mode"] === "off",
  },
  { name: "enable_search", bills: "each search (Alibaba)", isFree: isOneOf(false) },
  {
    name: "web_search",
    bills: "each search (Baidu)",
    isFree: (value) => value === false || fieldsOf(value)["enable"] === false,
  },
  {
    name: "plugins",
    bills: "each use (OpenRouter)",
    isFree: (value) => Array.isArray(value) && value.length === 0,
  },
  // The endpoint refuses tiers that the model does not sell.
  {
    name: "speed",
    bills: "tokens of another price (Anthropic)",
    isFree: isOneOf("standard", "fast"),
  },
  {
    name: "inference_geo",
    bills: "tokens of another price (Anthropic)",
    isFree: isOneOf("global"),
  },
  {
    name: "service_tier",
    bills: "tokens of another price",
    isFree: isOneOf("auto", "default", "standard_only", "flex", "priority", "fast", "batch"),
  },
  {
    name: "prompt_cache_options.ttl",
    bills: "longer writes to the cache (OpenAI)",
    isFree: isOneOf("30m"),
  },
  { name: "serviceTier", bills: "tokens of another price (Gemini)", isFree: isOneOf("standard") },
];

const EXTRA_PATHS = extraFields
  .filter(({ name }) => name !== AUDIO_INPUT.name)
  .map((field) => ({ field, path: field.name.split(".") }));

const EXTRA_FIELD_NAMES = EXTRA_PATHS.map(({ field, path: [first = field.name] }) => first);

/** The operator's rules. `refusedTools` are types of tools, `allowedTools` are names of extras. */
export interface ExtraRules {
  readonly refusedTools: readonly string[];
  readonly allowedTools: readonly string[];
}

/** An extra that a request asks for and that needs a price. Plain data: a message to a Worker can have it. */
export interface AskedExtra {
  readonly name: string;
  readonly soldBy: readonly (readonly ExtraName[])[];
  readonly over: readonly CountedOver[];
  /** Begins the message of its refusal. */
  readonly shown: string;
  /** A chat that the gateway writes does not have it. */
  readonly isTool: boolean;
  readonly passes: boolean;
  /** The interfaces that bill it. Undefined: all. */
  readonly billedOver?: readonly CountedOver[];
}

/** What a request asks for besides tokens of text. */
export interface AskedExtras {
  readonly extras: readonly AskedExtra[];
  /** The most to hold for of what the provider's tools use. */
  readonly most: OtherCounts;
  /** The figures of prompt and answer that it may have only because it asks for them. */
  readonly asked: readonly FigureName[];
  /** The maximum of calls to send, so that they stay within the hold. Undefined: the client's own is sent, or none is needed. */
  readonly toolCallsMax: number | undefined;
}

/** What of the prompt is a recording. */
export interface Recordings {
  readonly hasAudio: boolean;
  readonly hasVideo: boolean;
}

interface ExtraOptions extends Partial<Recordings> {
  /** Begins the message about tools of a type. */
  readonly toolsAre?: (type: string) => string;
  /** The client's maximum of calls. */
  readonly toolCallsBound?: unknown;
}

/**
 * Finds what a request asks for besides tokens of text. Throws ApiError 400 for a tool that the operator refuses, and for an
 * extra that no model can sell and the operator does not allow. A name of the table stands for all types of the tool.
 */
export function readExtras(
  body: JsonFields,
  { refusedTools, allowedTools }: ExtraRules,
  options: ExtraOptions = {},
): AskedExtras {
  const { toolsAre = (type) => `tools of the type ${type} are` } = options;
  const found = [...askedRecordings(options), ...askedFields(body, allowedTools)];
  const definitions = toolDefinitionsOf(body);
  for (const tool of definitions) {
    const type = typeOf(tool);
    if (namesTool(refusedTools, type))
      throw invalidRequest(`${shownTools(type, toolsAre)} not supported`);
  }
  const extras = found.filter(({ name }) => !allowedTools.includes(name));
  const tools = new Set<ExtraTool>();
  for (const tool of definitions) {
    if (tokenToolOf(tool) !== undefined) continue;
    const type = typeOf(tool);
    const extra = extraToolOf(type);
    if (extra?.soldBy) tools.add(extra);
    if (namesTool(allowedTools, type)) continue;
    const shown = shownTools(type, toolsAre);
    if (!extra?.soldBy || extra.isPriced?.(tool) === false)
      throw invalidRequest(`${shown} not supported: ${NO_PRICE}`);
    extras.push({ ...askOf(extra), isTool: true, passes: extra.passes === true, shown });
  }
  const limits = limitsOf(tools, options.toolCallsBound);
  return { extras, ...limits, asked: askedParts(found) };
}

/** Throws ApiError 400 for a field of the table, unless `allowed` names it. */
export function refuseExtraFields(body: JsonFields, allowed: readonly string[]): void {
  const asked = askedFields(body, allowed).find(({ name }) => !allowed.includes(name));
  if (asked) throw invalidRequest(`${asked.shown} not supported: ${NO_PRICE}`);
}

/** Video has audio too, which only Google bills apart. */
function askedRecordings({ hasAudio = false, hasVideo = false }: ExtraOptions): AskedExtra[] {
  const asked: AskedExtra[] = [];
  if (hasAudio) asked.push({ ...askOf(AUDIO_INPUT), shown: "audio in a prompt is" });
  if (hasVideo)
    asked.push({ ...askOf(AUDIO_INPUT), shown: "video in a prompt is", billedOver: ["gemini"] });
  return asked;
}

/** Throws ApiError 400 for a field that no model can sell. */
function askedFields(body: JsonFields, allowed: readonly string[]): AskedExtra[] {
  refuseFieldsInOtherCase(body, EXTRA_FIELD_NAMES);
  const asked: AskedExtra[] = [];
  for (const { field, path } of EXTRA_PATHS) {
    const value = valueAt(body, path);
    if (value === undefined || field.isFree?.(value) === true) continue;
    const shown = `${field.name} is`;
    const soldBy = soldByOf(field, value);
    if (soldBy) asked.push({ ...askOf({ ...field, soldBy }), shown });
    else if (!allowed.includes(field.name))
      throw invalidRequest(`${shown} not supported: ${NO_PRICE}`);
  }
  return asked;
}

function askOf({ name, soldBy = [], over = [] }: Extra): Omit<AskedExtra, "shown"> {
  return { name, soldBy, over, isTool: false, passes: false };
}

const MODES: ReadonlyMap<string, ExtraName> = new Map([
  ["audio", "audioOutputTokens"],
  ["image", "imageOutputTokens"],
]);

/** The figures that a value of a field is billed by. A list of modalities needs only those of its modalities. */
function soldByOf({ soldBy }: ExtraField, value: unknown): Extra["soldBy"] {
  if (!Array.isArray(value) || !soldBy) return soldBy;
  const names = new Set<ExtraName>();
  for (const mode of value) {
    if (isOnlyText([mode])) continue;
    const name = typeof mode === "string" ? MODES.get(mode.toLowerCase()) : undefined;
    if (name === undefined || !soldBy.flat().includes(name)) return undefined;
    names.add(name);
  }
  return [[...names]];
}

/** The parts of prompt and answer that the extras are billed by. */
function askedParts(asked: readonly AskedExtra[]): readonly FigureName[] {
  if (asked.length === 0) return [];
  const names = new Set<FigureName>(asked.flatMap(({ soldBy }) => soldBy.flat()));
  if (names.has("audioInputTokens")) names.add("cachedAudioTokens");
  return figures
    .filter((figure) => "isAsked" in figure && names.has(figure.name))
    .map(({ name }) => name);
}

/** All tools share one maximum of calls, so each is held for as often. */
function limitsOf(
  tools: ReadonlySet<ExtraTool>,
  given: unknown,
): Pick<AskedExtras, "most" | "toolCallsMax"> {
  if (tools.size === 0) return { most: {}, toolCallsMax: undefined };
  const isCount = typeof given === "number" && Number.isSafeInteger(given) && given >= 0;
  const calls = isCount ? Math.min(given, CALLS_MAX) : callsOf(tools);
  let most: OtherCounts = {};
  for (const { ofCall } of tools) most = addCounts(most, timesCounts(ofCall, calls));
  return { most, toolCallsMax: calls === given ? undefined : calls };
}

function callsOf(tools: ReadonlySet<ExtraTool>): number {
  let least = CALLS_DEFAULT;
  for (const { calls = CALLS_DEFAULT } of tools) least = Math.min(least, calls);
  return least;
}

function timesCounts(counts: OtherCounts = {}, times: number): OtherCounts {
  return ofEachOther(({ name }) => (counts[name] ?? 0) * times);
}

/** The 400 of an extra for a model, undefined if it may be sent over these interfaces of its providers. */
export function refusalOfExtra(
  { name, soldBy, over, shown }: AskedExtra,
  sells: Readonly<Record<ExtraName, boolean>>,
  interfaces: readonly CountedOver[],
): ApiError | undefined {
  if (interfaces.length === 0) return undefined;
  const isCounted = interfaces.every((one) => over.includes(one));
  if (isCounted && soldBy.some((names) => names.every((one) => sells[one]))) return undefined;
  const missing = (soldBy[0] ?? []).filter((one) => !sells[one]).map((one) => `no ${keyOf(one)}`);
  const reason = isCounted
    ? `the model has ${missing.join(" and ")}`
    : "the provider does not count it over this interface";
  return invalidRequest(`${shown} not supported: ${reason}, and ${name} is not in ${ALLOW_LIST}`);
}

/** The key of the price of a figure. */
export function keyOf(name: ExtraName): PriceField {
  const figure = figures.find((one) => one.name === name);
  if (figure === undefined) throw new Error(`no figure has the name ${name}`);
  return figure.price.key;
}

/** The name of a search of the web that the provider runs. */
export const WEB_SEARCH_NAME = WEB_SEARCH.name;

/** Whether these names, of `[api] allowed_tools` or `refused_tools`, have web searches. */
export function namesWebSearch(names: readonly string[]): boolean {
  return names.includes(WEB_SEARCH.name);
}

/** Whether these names, of `[api] allowed_tools`, have an extra that is billed by the figure. */
export function allowsFigure(names: readonly string[], figure: FigureName): boolean {
  return [...extraTools, ...extraFields].some(
    ({ name, soldBy = [] }) =>
      soldBy.flat().some((one) => one === figure) && namesExtra(names, name),
  );
}

/** Whether a type of a tool is a search of the web that the provider runs. */
export function isWebSearch(type: unknown): boolean {
  return (
    typeof type === "string" && (WEB_SEARCH.types.test(type) || WEB_SEARCH_PREVIEW.types.test(type))
  );
}

export function isClientTool(tool: JsonFields): boolean {
  return tokenToolOf(tool)?.runBy === "client";
}

const ALLOW_LIST = "[api] allowed_tools";
const NO_PRICE = `it may cost more than tokens, has no price, and is not in ${ALLOW_LIST}`;

function namesTool(names: readonly string[], type: string): boolean {
  return names.includes(type) || namesExtra(names, extraToolOf(type)?.name ?? type);
}

function namesExtra(names: readonly string[], name: string): boolean {
  const kindOf = extraTools.find((tool) => tool.name === name)?.kindOf;
  return names.includes(name) || (kindOf !== undefined && names.includes(kindOf));
}

function extraToolOf(type: string): ExtraTool | undefined {
  return extraTools.find(({ name, types }) => name === type || types?.test(type) === true);
}

function tokenToolOf(tool: JsonFields): TokenTool | undefined {
  const type = typeOf(tool);
  return TOKEN_TOOLS.find(({ types, isFree }) => types.test(type) && isFree?.(tool) !== false);
}

/** Keys of Google's own tools. A gateway in front of Google's models reads them beside a function too. */
const GOOGLES_KEY = /^google|search|code_?execution|url_?context/i;

/**
 * The type of a tool. Without one it is a function if it has a name or a schema, as in Anthropic's interface, else its
 * first key names it, as in Google's. A function with a tool of Google is that tool.
 */
function typeOf(tool: JsonFields): string {
  const type = ownValue(tool, "type");
  if (type === undefined || type === "function") {
    const own = Object.keys(tool).find((key) => GOOGLES_KEY.test(key));
    if (own !== undefined) return own;
  }
  if (typeof type === "string") return wholeString(type);
  if (type !== undefined) return "";
  const isFunction =
    typeof tool["name"] === "string" ||
    isJsonObject(tool["function"]) ||
    isJsonObject(tool["input_schema"]);
  return isFunction ? "function" : (Object.keys(tool)[0] ?? "");
}

/** A type that may be repeated to the caller. */
const PLAIN_TYPE = /^[\w.:$-]{1,64}$/;

function shownTools(type: string, toolsAre: (type: string) => string): string {
  return PLAIN_TYPE.test(type) ? toolsAre(type) : "tools of an unknown type are";
}

/**
 * Every definition of a tool, also inside another tool, and inside an item of the input, such as `additional_tools` and
 * `tool_search_output`: https://platform.openai.com/docs/api-reference/responses/create#responses-create-input
 */
function toolDefinitionsOf(body: JsonFields): readonly JsonFields[] {
  const lists = [ownValue(body, "tools")];
  walk([ownValue(body, "input"), ownValue(body, "instructions")], (item, key) => {
    // The tools of another server, as an earlier answer listed them.
    const isRecord = isJsonObject(item) && item["type"] === "mcp_list_tools";
    if (key === "tools") lists.push(item);
    return key === undefined && typeof item === "object" && !isRecord;
  });
  const definitions: JsonFields[] = [];
  walk(lists, (found, key) => {
    if (key !== undefined && key !== "tools") return false;
    if (isJsonObject(found)) definitions.push(found);
    return typeof found === "object";
  });
  return definitions;
}

/** The value at a path of keys. Undefined if it is absent or null. */
function valueAt(body: JsonFields, path: readonly string[]): unknown {
  let value: unknown = body;
  for (const key of path) value = ownValue(fieldsOf(value), key);
  return value;
}
