import { OPERATORS_FIELDS } from "../../contract/messages/messagesRequest.ts";
import { readMessagesUsage } from "../../contract/usage.ts";
import { readMessage, readMessageEvents } from "./anthropicAnswer.ts";
import {
  OPENAI_NAMES,
  unsupported,
  type ChatCall,
  type EncodedRequest,
  type NameRule,
  type NativeCall,
  type ProviderAdapter,
  type UsageMember,
} from "../provider.ts";
import type { ChatRequestBody } from "../../contract/chat/chatRequestBody.ts";
import { fieldsOf, type JsonFields, isGiven } from "../../lib/json.ts";
import { spliceBytes } from "../../lib/splice.ts";
import { automaticMark, cacheControlOf } from "./promptCache.ts";
import {
  conversationOf,
  messagesOf,
  type Block,
  openCallLoop,
  type Turn,
  versionOf,
} from "./anthropicMessages.ts";
import { bodyWithOthers, refuseOtherAnswers } from "../chat/chatParts.ts";
import {
  formatInstruction,
  formatOf,
  toolChoiceOf,
  toolsOf,
  type ChatToolChoice,
} from "../chat/chatTools.ts";
import { claudeSchema } from "./claudeSchema.ts";
import { sentTools, type SentTool } from "./strictTools.ts";

/** Required: https://platform.claude.com/docs/en/api/versioning */
const VERSION_HEADER = { "anthropic-version": "2023-06-01" };

/** https://platform.claude.com/docs/en/api/messages */
const NAMES: NameRule = { ...OPENAI_NAMES, charactersMax: 128 };

const usage: UsageMember = { name: "usage", read: readMessagesUsage };

/** The Messages API of Anthropic and compatible providers: https://platform.claude.com/docs/en/api/messages */
export const anthropic: ProviderAdapter = {
  headers: (apiKey) => (apiKey === undefined ? {} : { "x-api-key": apiKey }),
  chat: {
    encode: encodeMessages,
    read: readMessage,
    usage,
    events: readMessageEvents,
    eventsStandAlone: false,
    supportsEverything: false,
    takesStop,
    takes: { hasManyServers: false, picturesInResults: true, toolNames: NAMES },
  },
  responses: undefined,
  messages: {
    encode: (call) => encodeNative("/messages", call),
    encodeCount: (call) => encodeNative("/messages/count_tokens", call),
    usage,
  },
  embeddings: undefined,
};

/** The client's own text and headers. Only the model's name is replaced, and the bound if it has to be smaller. */
function encodeNative(path: string, call: NativeCall): EncodedRequest {
  const { object, model, headers, outputTokensBound: bound, dropFields: remove } = call;
  const set: Record<string, string> = { model: JSON.stringify(model) };
  if (bound !== undefined) set["max_tokens"] = String(bound);
  const body = spliceBytes(object, { set, remove });
  return { path, headers: { ...VERSION_HEADER, ...headers }, body };
}

/**
 * Encodes a chat for https://platform.claude.com/docs/en/api/messages. `max_tokens` is required there, so it is
 * always sent. A temperature over 1 passes; the provider refuses it. Throws UnsupportedRequestError.
 */
function encodeMessages(call: ChatCall): EncodedRequest {
  const { request, model } = call;
  const body: ChatRequestBody & Block = request.body;
  if (request.choiceCount > 1) throw unsupported("n");
  refuseOtherAnswers(body);
  const foreign = OPERATORS_FIELDS.find((name) => isGiven(body[name]));
  if (foreign !== undefined) throw unsupported(foreign);
  const { system: instructions, turns } = conversationOf(body, model);
  const system = systemOf(body, instructions);
  const stop = request.stop.filter(takesStop);
  const format = formatOf(body);
  const schema = format?.kind === "schema" ? claudeSchema(format.schema) : undefined;
  const tools = sentTools(toolsOf(body), schema);
  const choice = toolChoiceOf(body);
  const maxTokens = call.outputTokensBound ?? call.outputTokensMax;
  // The caller's native `thinking` field wins over the effort.
  const options = { maxTokens, model, choice, turns };
  const reasoning = isGiven(body["thinking"]) ? {} : reasoningFieldsOf(body, options);
  const fields = {
    model,
    max_tokens: maxTokens,
    stream: request.stream ? true : undefined,
    system: system.length === 0 ? undefined : system,
    messages: turns.flatMap(messagesOf),
    temperature: body.temperature ?? undefined,
    top_p: body.top_p ?? undefined,
    stop_sequences: stop.length === 0 ? undefined : stop,
    metadata: metadataOf(body),
    service_tier: body["service_tier"] === "default" ? "standard_only" : undefined,
    tools: tools.length === 0 ? undefined : tools.map(toolOf),
    tool_choice: choiceOf(choice, tools.length > 0, body["parallel_tool_calls"] !== false),
    thinking: reasoning.thinking,
    output_config: outputConfigOf(body, reasoning, schema),
    cache_control: call.cachesPrompt === true ? automaticMark(body) : undefined,
  };
  return { path: "/messages", headers: VERSION_HEADER, body: bodyWithOthers(call, fields) };
}

/** The interface refuses a blank sequence: https://platform.claude.com/docs/en/api/messages/create */
function takesStop(sequence: string): boolean {
  return sequence.trim() !== "";
}

function toolOf(tool: SentTool): Block {
  return {
    name: tool.name,
    ...(tool.description === undefined ? {} : { description: tool.description }),
    input_schema: tool.parameters,
    ...(tool.strict === true && { strict: true }),
    // Some clients write the mark into the function.
    ...cacheControlOf(fieldsOf(tool.own["function"])),
    ...cacheControlOf(tool.own),
  };
}

/** Parallel calls are part of the choice here. */
function choiceOf(
  choice: ChatToolChoice | undefined,
  hasTools: boolean,
  isParallel: boolean,
): Block | undefined {
  if (choice?.kind === "allowed") throw unsupported("tool_choice");
  if (choice?.kind === "none") return hasTools ? { type: "none" } : undefined;
  const single = isParallel ? {} : { disable_parallel_tool_use: true };
  if (choice?.kind === "required") return { type: "any", ...single };
  if (choice?.kind === "tool") return { type: "tool", name: choice.name, ...single };
  if (!hasTools || (choice === undefined && isParallel)) return undefined;
  return { type: "auto", ...single };
}

/** `safety_identifier` is OpenAI's newer name for `user`. */
function metadataOf(body: Block): Block | undefined {
  const { user, safety_identifier: identifier, metadata } = body;
  const id = [user, identifier, fieldsOf(metadata)["user_id"]].find(
    (value) => typeof value === "string",
  );
  return id === undefined ? undefined : { user_id: id };
}

/**
 * The instructions, with one for `json_object`: structured outputs need a schema here, and allow no open object. Throws
 * UnsupportedRequestError if a native `system` would replace them.
 */
function systemOf(body: ChatRequestBody & Block, instructions: readonly Block[]): readonly Block[] {
  const format = formatOf(body);
  const system =
    format?.kind === "json"
      ? [...instructions, { type: "text", text: formatInstruction(format) }]
      : instructions;
  if (system.length === 0 || !isGiven(body["system"])) return system;
  throw unsupported(
    instructions.length > 0
      ? "system beside instructions in messages"
      : "system beside response_format",
  );
}

/** https://platform.claude.com/docs/en/build-with-claude/structured-outputs */
function outputConfigOf(
  body: ChatRequestBody & Block,
  { effort }: ReasoningFields,
  schema: JsonFields | undefined,
): Block | undefined {
  const config = {
    ...(effort !== undefined && { effort }),
    ...(schema !== undefined && { format: { type: "json_schema", schema } }),
    ...fieldsOf(body["output_config"]),
  };
  return Object.keys(config).length === 0 ? undefined : config;
}

/** https://platform.claude.com/docs/en/build-with-claude/extended-thinking and .../effort */
interface ReasoningFields {
  readonly thinking?: JsonFields;
  readonly effort?: string;
}

type Effort = NonNullable<ChatRequestBody["reasoning_effort"]>;

/** Reasoning tokens of a model that takes a budget, if `max_tokens` leaves enough. */
const BUDGETS: Readonly<Record<Exclude<Effort, "none">, number>> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: 32_768,
};
/** The interface refuses a smaller budget. */
const BUDGET_MIN = 1024;
/** `max_tokens` counts reasoning too. This share of it stays for the answer. */
const ANSWER_SHARE = 0.25;
/** The only temperature that the interface accepts with reasoning, and the default. */
const TEMPERATURE = 1;
const TOP_P_MIN = 0.95;

/** Claude 3.7 and later reason with a budget, 4.6 and later by an effort. 4.6 has `max` instead of `xhigh`. */
const REASONING_SINCE = 3.07;
const ADAPTIVE_SINCE = 4.06;
const XHIGH_SINCE = 4.07;

/**
 * Newer models take an effort and refuse a budget; older ones the reverse. A name without a Claude version gets a
 * budget, the form that compatible servers copied. The reasoning is left out where the interface would refuse it: with
 * a forced tool, another temperature or top_p, a small bound, or a tool loop without its reasoning.
 */
function reasoningFieldsOf(
  body: ChatRequestBody,
  options: {
    maxTokens: number;
    model: string;
    choice: ChatToolChoice | undefined;
    turns: readonly Turn[];
  },
): ReasoningFields {
  const effort = body.reasoning_effort ?? undefined;
  // These models do not reason unless they are asked to.
  if (effort === undefined || effort === "none") return {};
  const version = versionOf(options.model);
  if (version !== undefined && version < REASONING_SINCE) return {};
  const isAdaptive = version !== undefined && version >= ADAPTIVE_SINCE;
  const isBudgeted = version !== undefined && !isAdaptive;
  const allowed =
    allowsReasoning(body, options.choice) && !lacksReasoning(options.turns, isBudgeted);
  if (isAdaptive) {
    return {
      effort: effortIn(effort, version),
      // Some of these models hide their reasoning by default.
      ...(allowed ? { thinking: { type: "adaptive", display: "summarized" } } : {}),
    };
  }
  const budgetMax = Math.floor(options.maxTokens * (1 - ANSWER_SHARE));
  const budget = Math.min(BUDGETS[effort], budgetMax);
  if (!allowed || budget < BUDGET_MIN) return {};
  return { thinking: { type: "enabled", budget_tokens: budget } };
}

function effortIn(effort: Exclude<Effort, "none">, version: number): string {
  if (effort === "minimal") return "low";
  return effort === "xhigh" && version < XHIGH_SINCE ? "max" : effort;
}

function allowsReasoning(body: ChatRequestBody, choice: ChatToolChoice | undefined): boolean {
  const isForced = choice?.kind === "required" || choice?.kind === "tool";
  return (
    !isForced && (body.temperature ?? TEMPERATURE) === TEMPERATURE && (body.top_p ?? 1) >= TOP_P_MIN
  );
}

/**
 * In a tool loop the provider requires the reasoning before the calls. A Claude with a budget has it first; other
 * models may have text before it.
 */
function lacksReasoning(turns: readonly Turn[], mustComeFirst: boolean): boolean {
  const [first] = openCallLoop(turns);
  if (first === undefined) return false;
  const candidates = mustComeFirst ? first.content.slice(0, 1) : first.content;
  return !candidates.some(({ type }) => type === "thinking" || type === "redacted_thinking");
}
