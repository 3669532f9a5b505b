import { askedTier, type AskedTier } from "../serviceTier.ts";
import { type Static, Type } from "@sinclair/typebox";
import { fieldsOf, isGiven, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { invalidRequest } from "../errors.ts";
import {
  type AskedExtras,
  CALLS_DEFAULT,
  CALLS_MAX,
  type ExtraRules,
  isClientTool,
  isWebSearch,
  readExtras,
} from "../extras.ts";
import { refuseKeysInOtherCase } from "../keyCase.ts";
import {
  bodyCheck,
  modelField,
  nullable,
  oneOf,
  ownValue,
  refuseFields,
  refuseOtherNames,
  usesLongPromptCacheTtl,
} from "../requestFields.ts";
import { findChatObjects } from "../storedObjects.ts";
import type { Annotations } from "../validationMessage.ts";
import { measureMessages, type MessagesMeasure } from "./messagesPrompt.ts";

const MESSAGES_MAX = 10_000;

/** One block of a message's content. The provider checks everything but its type. */
const ContentBlock = Type.Object(
  { type: Type.String({ description: "The kind of block, such as `text` or `tool_result`." }) },
  { description: "One block of a message's content. The provider checks the other fields." },
);

const content = (description: string) =>
  Type.Union(
    [
      Type.String(),
      Type.Array(ContentBlock, { described: "an array of blocks" } satisfies Annotations),
    ],
    { description },
  );

const conversation = {
  model: modelField,
  messages: Type.Array(
    Type.Object({
      role: oneOf(["user", "assistant", "system"], { description: "Who wrote it." }),
      content: content("The text, or a list of content blocks."),
    }),
    { minItems: 1, maxItems: MESSAGES_MAX, description: "The conversation so far." },
  ),
  tools: nullable(
    Type.Array(Type.Object({}), { described: "an array of tools" } satisfies Annotations),
    "The tools that the model may call.",
  ),
  system: Type.Optional(
    Type.Union([content("The instructions."), Type.Null()], {
      description: "The instructions: a text, or a list of text blocks.",
    }),
  ),
};

/** The checked fields of the body of POST /v1/messages. The provider checks the others. */
export type MessagesRequestBody = Static<typeof MessagesRequestBody>;
export const MessagesRequestBody = Type.Object({
  ...conversation,
  max_tokens: Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description: "The most tokens that the answer may have, with reasoning.",
  }),
  stream: nullable(Type.Boolean(), "True: the answer comes as server-sent events."),
});

/** The checked fields of the body of POST /v1/messages/count_tokens. */
export type CountTokensRequestBody = Static<typeof CountTokensRequestBody>;
export const CountTokensRequestBody = Type.Object(conversation);

/** A checked request for a count: the provider gets the client's own text. */
export interface CountTokensRequest extends MessagesMeasure {
  readonly model: string;
  /** Ids of files of the provider. */
  readonly objectIds: readonly string[];
}

/** A checked request: what the gateway needs. A provider of kind anthropic gets the client's own text. */
export interface MessagesRequest extends CountTokensRequest, Omit<AskedExtras, "toolCallsMax"> {
  /** The provider bills no runs of code. */
  readonly runsCodeFree: boolean;
  readonly stream: boolean;
  readonly outputTokensBound: number;
  /** How many tokens of the bound reasoning may take. 0 if the client does not say. */
  readonly reasoningBudget: number;
  /** The prompt may be larger than the request's own text: it has images, files, or tools that the provider runs. */
  readonly needsWholeContext: boolean;
  /** The provider may cut the prompt before a model reads it. */
  readonly trimsPrompt: boolean;
  /** A part of the prompt may be kept in the provider's cache for an hour. */
  readonly usesLongCacheTtl: boolean;
  readonly serviceTier: AskedTier;
}

export interface MessagesRules extends ExtraRules {
  readonly refusedFields: readonly string[];
}

/**
 * Fields that name what belongs to the operator's account at the provider, or that let another model answer, whose price
 * is not known: https://platform.claude.com/docs/en/api/messages/create
 */
export const OPERATORS_FIELDS = [
  "container",
  // It names an earlier answer.
  "diagnostics",
  "fallback_credit_token",
  "fallbacks",
  "thread",
  "user_profile_id",
  "workspace_id",
] as const;

/** Names of other interfaces for a bound or for more choices. A compatible server may obey them beside `max_tokens`. */
const OTHER_INTERFACES_FIELDS = ["max_completion_tokens", "max_output_tokens", "n"] as const;

const checkMessages = bodyCheck(MessagesRequestBody);
const checkCount = bodyCheck(CountTokensRequestBody);

/** Checks a body that `parseJsonObject` accepted. Throws ApiError 400 with the first problem. */
export function checkMessagesRequest(value: JsonFields, rules: MessagesRules): MessagesRequest {
  const body = checkMessages(value);
  const measure = measureMessages(value);
  const { extras, most, asked } = readForeign(value, rules, measure);
  const tools = readServerTools(ownValue(value, "tools"));
  const { webSearches, runsCodeFree } = tools;
  const objectIds = objectIdsOf(value);
  const hasServers = Array.isArray(ownValue(value, "mcp_servers"));
  return {
    ...measure,
    model: body.model,
    stream: body.stream ?? false,
    outputTokensBound: body.max_tokens,
    reasoningBudget: reasoningBudgetOf(value),
    needsWholeContext:
      measure.promptSize.nonTextParts > 0 || tools.areAny || hasServers || objectIds.length > 0,
    trimsPrompt: isGiven(value["context_management"]) || isGiven(value["compaction"]),
    usesLongCacheTtl: usesLongPromptCacheTtl(value),
    serviceTier: askedTier(value),
    extras: runsCodeFree ? extras.filter(({ name }) => name !== CODE_EXECUTION) : extras,
    most: {
      ...most,
      ...(webSearches > 0 && { webSearches }),
      ...(runsCodeFree && { codeSessions: 0 }),
    },
    asked,
    runsCodeFree,
    objectIds,
  };
}

function reasoningBudgetOf({ thinking }: JsonFields): number {
  const { budget_tokens: budget } = fieldsOf(thinking);
  return typeof budget === "number" ? budget : 0;
}

/** Checks a body of POST /v1/messages/count_tokens in the same way. */
export function checkCountTokensRequest(
  value: JsonFields,
  rules: MessagesRules,
): CountTokensRequest {
  const { model } = checkCount(value);
  const measure = measureMessages(value);
  // A count costs nothing.
  readForeign(value, rules, measure);
  return { ...measure, model, objectIds: objectIdsOf(value) };
}

/**
 * Anthropic's message about a type that it refuses. Claude Code repeats the request without what a 400 names so:
 * https://code.claude.com/docs/en/llm-gateway-protocol#automatic-retry-and-error-forwarding
 */
export function inputTag(type: string): string {
  return `Input tag '${type}'`;
}

/** Begins the message about a type of tools. */
function toolsAre(type: string): string {
  return `tools: ${inputTag(type)} is`;
}

/**
 * Throws ApiError 400 for a thread, because the provider would keep the conversation for its account. Anthropic's tool
 * runners ask for a thread, and go on without it if the error has this code.
 */
function refuseThread(body: JsonFields): void {
  if (ownValue(body, "thread") === undefined) return;
  const details = { error_code: "thread_unsupported_request", unsupported: ["thread"] };
  throw invalidRequest("thread is not supported", { details });
}

/** What the request asks for besides tokens. Throws ApiError 400 for what is not for a client of the gateway. */
function readForeign(
  body: JsonFields,
  rules: MessagesRules,
  { promptSize: { audioParts, videoParts } }: MessagesMeasure,
): AskedExtras {
  refuseThread(body);
  refuseFields(body, [...rules.refusedFields, ...OPERATORS_FIELDS, ...OTHER_INTERFACES_FIELDS]);
  refuseOtherNames(body, "max_tokens");
  const extras = readExtras(body, rules, {
    toolsAre,
    hasAudio: audioParts > 0,
    hasVideo: videoParts > 0,
  });
  refuseMessagesInOtherCase(body);
  return extras;
}

const MESSAGE_KEYS: ReadonlySet<string> = new Set(["role", "content"]);
const BLOCK_KEYS: ReadonlySet<string> = new Set(["type", "text", "source", "cache_control"]);
const TOOL_KEYS: ReadonlySet<string> = new Set(["type", "max_uses", "cache_control"]);

/** Throws ApiError 400 for a key that differs from a known key only in case: see `refuseFieldsInOtherCase`. */
function refuseMessagesInOtherCase(body: JsonFields): void {
  for (const [index, message] of listOf(body["messages"]).entries()) {
    const path = `messages[${index}].`;
    refuseKeysInOtherCase(message, MESSAGE_KEYS, () => path);
    for (const block of listOf(isJsonObject(message) ? message["content"] : undefined))
      refuseKeysInOtherCase(block, BLOCK_KEYS, () => `${path}content.`);
  }
  for (const block of listOf(body["system"]))
    refuseKeysInOtherCase(block, BLOCK_KEYS, () => "system.");
  for (const tool of listOf(body["tools"])) refuseKeysInOtherCase(tool, TOOL_KEYS, () => "tools.");
}

function objectIdsOf(body: JsonFields): readonly string[] {
  const contents = listOf(body["messages"]).map((message) =>
    isJsonObject(message) ? message["content"] : undefined,
  );
  return findChatObjects([body["system"], ...contents], undefined).objectIds;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The tools of a request that the provider runs. */
interface ServerTools {
  /** The results of these tools make the prompt longer. */
  readonly areAny: boolean;
  /** The most searches of all of them together. */
  readonly webSearches: number;
  /** The provider bills no runs of code. */
  readonly runsCodeFree: boolean;
}

const CODE_EXECUTION = "code_execution";

/**
 * From this version on the web tools run code themselves, and runs of code are free beside them:
 * https://platform.claude.com/docs/en/about-claude/pricing#tool-use-pricing
 */
const WEB_TOOL = /^web_(?:search|fetch)_(\d{8})$/;
const FREE_RUNS_SINCE = "20260209";

/** Reads the definitions of tools that `readExtras` lets pass. Throws ApiError 400 for too many searches. */
function readServerTools(tools: unknown): ServerTools {
  let areAny = false;
  let webSearches = 0;
  let runsCodeFree = false;
  const list: readonly unknown[] = Array.isArray(tools) ? tools : [];
  for (const [index, definition] of list.entries()) {
    const tool = fieldsOf(definition);
    if (isClientTool(tool)) continue;
    areAny = true;
    const { type } = tool;
    if (typeof type !== "string") continue;
    const [, version = ""] = WEB_TOOL.exec(type) ?? [];
    runsCodeFree ||= version >= FREE_RUNS_SINCE;
    if (!isWebSearch(type)) continue;
    webSearches += searchesOf(tool, `tools[${index}]`);
    if (webSearches > CALLS_MAX) {
      throw invalidRequest(`tools must allow at most ${CALLS_MAX} web searches together`);
    }
  }
  return { areAny, webSearches, runsCodeFree };
}

function searchesOf({ max_uses: uses = null }: JsonFields, path: string): number {
  if (uses === null) return CALLS_DEFAULT;
  const isCount = typeof uses === "number" && Number.isInteger(uses) && uses >= 1;
  if (isCount && uses <= CALLS_MAX) return uses;
  throw invalidRequest(`${path}.max_uses must be an integer from 1 to ${CALLS_MAX}`);
}
