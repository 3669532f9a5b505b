import { fieldsOf, isJsonObject, type JsonFields, walk } from "../lib/json.ts";
import { type ApiError, invalidRequest } from "./errors.ts";
import type { OtherCounts, PriceField } from "./figures.ts";
import { wholeString } from "../lib/outline.ts";
import { refuseFieldsInOtherCase } from "./keyCase.ts";
import { ownValue } from "./requestFields.ts";

/**
 * Something that a provider may bill besides tokens, if a request asks for it. Such a request is refused before
 * anything is sent, unless `[api] allowed_tools` names the extra. Web searches pass here: the endpoint refuses them for a
 * model without their price. docs/reference/calls.md lists the extras.
 */
export interface Extra {
  /** The name for `[api] allowed_tools`: the type of a tool without its date, or the path of a field. */
  readonly name: string;
  readonly bills: string;
  /** The key of a model that has the price of the extra, for messages and docs. Undefined: none has. */
  readonly price?: PriceField;
}

/** A tool that the provider runs. */
interface ExtraTool extends Extra {
  /** Types of the tool besides its name. */
  readonly types?: RegExp;
  /** Passes without a price where the interface cannot charge it, because the specification of the service names it. */
  readonly passes?: true;
}

interface ExtraField extends Extra {
  /** Whether a value costs no more than tokens. Null and an absent field never do. */
  readonly isFree?: (value: unknown) => boolean;
}

const WEB_SEARCH = {
  name: "web_search",
  types: /^web_search(?:_preview)?(?:_\d{8}|_\d{4}_\d{2}_\d{2})?$/,
  bills: "each search",
  price: "rub_web_search_per_1k",
  passes: true,
} as const satisfies ExtraTool;

/**
 * Tools that cost more than tokens. A type that is neither here nor in TOKEN_TOOLS is treated like these: vendors add
 * tools all the time, and bill most of those that they run. OpenAI: https://platform.openai.com/docs/pricing,
 * Anthropic: https://platform.claude.com/docs/en/about-claude/pricing#tool-use-pricing, OpenRouter:
 * https://openrouter.ai/docs/guides/features/server-tools, xAI: https://docs.x.ai/developers/tools/overview, Google:
 * https://ai.google.dev/gemini-api/docs/pricing
 */
export const extraTools: readonly ExtraTool[] = [
  WEB_SEARCH,
  { name: "image_generation", bills: "each image" },
  { name: "code_interpreter", bills: "each container" },
  { name: "code_execution", types: /^code_execution_\d{8}$/, bills: "the time of a container" },
  { name: "shell", bills: "each container, unless `environment.type` is `local`" },
  { name: "file_search", bills: "each call" },
  { name: "x_search", bills: "each call" },
  { name: "live_search", bills: "each source" },
  { name: "google_search", bills: "each search" },
  { name: "google_maps", bills: "each request" },
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

/** Fields that cost more than tokens, or tokens of another price. A dot leads into an object. */
export const extraFields: readonly ExtraField[] = [
  { name: "modalities", bills: "audio and images of the answer", isFree: isOnlyText },
  { name: "audio", bills: "audio of the answer" },
  {
    name: "generationConfig.responseModalities",
    bills: "audio and images of the answer (Gemini)",
    isFree: isOnlyText,
  },
  {
    name: "generationConfig.response_modalities",
    bills: "the same",
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
  { name: "serviceTier", bills: "tokens of another price (Gemini)", isFree: isOneOf("standard") },
];

const EXTRA_PATHS = extraFields.map(({ name, isFree }) => ({
  name,
  isFree,
  path: name.split("."),
}));

const EXTRA_FIELD_NAMES = extraFields.map(({ name }) => name.split(".", 1)[0] ?? name);

/** The operator's rules. `refusedTools` are types of tools, `allowedTools` are names of extras. */
export interface ExtraRules {
  readonly refusedTools: readonly string[];
  readonly allowedTools: readonly string[];
}

/**
 * Throws ApiError 400 for a tool that the operator refuses, and for an extra that the operator does not allow. A name
 * of the table stands for all types of the tool. `toolsAre` begins the message about tools of a type.
 */
export function refuseExtras(
  body: JsonFields,
  { refusedTools, allowedTools }: ExtraRules,
  toolsAre: (type: string) => string = (type) => `tools of the type ${type} are`,
): void {
  refuseExtraFields(body, allowedTools);
  const definitions = toolDefinitionsOf(body);
  for (const tool of definitions) {
    const type = typeOf(tool);
    if (namesTool(refusedTools, type))
      throw invalidRequest(`${shownTools(type, toolsAre)} not supported`);
  }
  for (const tool of definitions) {
    const type = typeOf(tool);
    const isFree = tokenToolOf(tool) !== undefined || extraToolOf(type)?.passes === true;
    if (isFree || namesTool(allowedTools, type)) continue;
    throw invalidRequest(`${shownTools(type, toolsAre)} not supported: ${NO_PRICE}`);
  }
}

/** Throws ApiError 400 for a field of the table, unless `allowed` names it. */
export function refuseExtraFields(body: JsonFields, allowed: readonly string[]): void {
  refuseFieldsInOtherCase(body, EXTRA_FIELD_NAMES);
  for (const { name, path, isFree } of EXTRA_PATHS) {
    const value = valueAt(body, path);
    if (value === undefined || isFree?.(value) === true || allowed.includes(name)) continue;
    throw invalidRequest(`${name} is not supported: ${NO_PRICE}`);
  }
}

/** The 400 for web searches of a model that has no price for them. `toolsAre` begins the message. */
export function unpricedWebSearch(toolsAre: string): ApiError {
  return invalidRequest(
    `${toolsAre} not supported: the model has no ${WEB_SEARCH.price}, and ${WEB_SEARCH.name} is not in ${ALLOW_LIST}`,
  );
}

/** The name of a search of the web that the provider runs. */
export const WEB_SEARCH_NAME = WEB_SEARCH.name;

/** Whether these names, of `[api] allowed_tools` or `refused_tools`, have web searches. */
export function namesWebSearch(names: readonly string[]): boolean {
  return names.includes(WEB_SEARCH.name);
}

/** Whether a type of a tool is a search of the web that the provider runs. */
export function isWebSearch(type: unknown): boolean {
  return typeof type === "string" && WEB_SEARCH.types.test(type);
}

/** Searches that are held for if the client sets no maximum. More are charged too. */
export const WEB_SEARCHES_DEFAULT = 20;
/** The most searches of all tools of a request together, which is more than any answer needs. */
export const WEB_SEARCHES_MAX = 1000;

/** The most to hold for of what is billed one by one: `bound` if the client sets one. */
export function mostOf(body: JsonFields, bound: unknown): OtherCounts {
  if (!toolDefinitionsOf(body).some(({ type }) => isWebSearch(type))) return {};
  const isCount = typeof bound === "number" && Number.isSafeInteger(bound) && bound >= 0;
  return { webSearches: isCount ? Math.min(bound, WEB_SEARCHES_MAX) : WEB_SEARCHES_DEFAULT };
}

export function isClientTool(tool: JsonFields): boolean {
  return tokenToolOf(tool)?.runBy === "client";
}

const ALLOW_LIST = "[api] allowed_tools";
const NO_PRICE = `it may cost more than tokens, has no price, and is not in ${ALLOW_LIST}`;

function namesTool(names: readonly string[], type: string): boolean {
  return names.includes(type) || names.includes(extraToolOf(type)?.name ?? type);
}

function extraToolOf(type: string): ExtraTool | undefined {
  return extraTools.find(({ name, types }) => name === type || types?.test(type) === true);
}

function tokenToolOf(tool: JsonFields): TokenTool | undefined {
  const type = typeOf(tool);
  return TOKEN_TOOLS.find(({ types, isFree }) => types.test(type) && isFree?.(tool) !== false);
}

/**
 * The type of a tool. Without one it is a function if it has a name or a schema, as in Anthropic's interface, else its
 * first key names it, as in Google's.
 */
function typeOf(tool: JsonFields): string {
  const type = ownValue(tool, "type");
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
  walk(ownValue(body, "input"), (item, key) => {
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
