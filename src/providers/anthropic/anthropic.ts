import { readMessagesUsage } from "../../contract/usage.ts";
import { readMessage, readMessageEvents } from "./anthropicAnswer.ts";
import type { ProviderAdapter, ChatCall, EncodedRequest } from "../provider.ts";
import type { ChatRequestBody } from "../../contract/chat/chatRequestBody.ts";
import { fieldsOf, type JsonFields } from "../../lib/json.ts";
import {
  cacheControlOf,
  conversationOf,
  messagesOf,
  type Block,
  openCallLoop,
  type Turn,
} from "./anthropicMessages.ts";
import { bodyWithOthers, isGiven, refuseOtherAnswers } from "../chat/chatFields.ts";
import { unsupported, unsupportedPart } from "../chat/chatParts.ts";
import {
  formatOf,
  NO_PARAMETERS,
  toolChoiceOf,
  toolsOf,
  type ChatToolChoice,
} from "../chat/chatTools.ts";
import { versionOf } from "./anthropicModel.ts";

/** https://platform.claude.com/docs/en/api/versioning: what a request without this header means is not promised. */
const VERSION = "2023-06-01";

/** The Messages API of Anthropic, and of all that speak it: https://platform.claude.com/docs/en/api/messages */
export const anthropic: ProviderAdapter = {
  headers: (apiKey) => ({
    "anthropic-version": VERSION,
    ...(apiKey === undefined ? {} : { "x-api-key": apiKey }),
  }),
  chat: {
    encode: encodeMessages,
    read: readMessage,
    usage: { name: "usage", read: readMessagesUsage },
    events: readMessageEvents,
    eventsStandAlone: false,
    supportsEverything: false,
    supportsStop: true,
  },
  responses: undefined,
};

/**
 * A chat request in the words of https://platform.claude.com/docs/en/api/messages. A bound is always sent, for there
 * it is required. Temperatures go as they are, though the interface ends at 1: what it refuses is its to say.
 * Throws UnsupportedRequestError.
 */
function encodeMessages(call: ChatCall): EncodedRequest {
  const { request, object, model } = call;
  const body: ChatRequestBody & Block = request.body;
  if (request.choiceCount > 1) throw unsupported("n");
  refuseOtherAnswers(body);
  // It names a place in the operator's account that other callers may have put things into.
  if (isGiven(body["container"])) throw unsupported("container");
  refuseGeography(body);
  const { system, turns } = conversationOf(body.messages, model);
  // Of two kinds of instructions one would be lost.
  if (system.length > 0 && isGiven(body["system"])) {
    throw unsupported("system beside instructions in messages");
  }
  const tools = toolsOf(body);
  const choice = toolChoiceOf(body);
  const maxTokens = call.outputTokensBound ?? call.outputTokensMax;
  // A caller that knows the interface may say itself how the model is to think.
  const asked = { maxTokens, model, choice, turns };
  const thoughts = isGiven(body["thinking"]) ? {} : thinkingOf(body, asked);
  const fields = {
    model,
    max_tokens: maxTokens,
    stream: request.stream ? true : undefined,
    system: system.length === 0 ? undefined : system,
    messages: turns.flatMap(messagesOf),
    temperature: body.temperature ?? undefined,
    top_p: body.top_p ?? undefined,
    stop_sequences: request.stop.length === 0 ? undefined : request.stop,
    metadata: metadataOf(body),
    service_tier: body["service_tier"] === "default" ? "standard_only" : undefined,
    tools: tools.length === 0 ? undefined : tools.map(toolOf),
    tool_choice: choiceOf(choice, tools.length > 0, body["parallel_tool_calls"] !== false),
    thinking: thoughts.thinking,
    output_config: outputConfigOf(body, thoughts),
  };
  return { path: "/messages", body: bodyWithOthers(object, fields) };
}

/** A place goes to the provider as it stands, and would make the same tokens dearer than their configured price. */
function refuseGeography({ inference_geo: place = null }: Block): void {
  if (place !== null && place !== "global") throw unsupported("inference_geo");
}

function toolOf(tool: ReturnType<typeof toolsOf>[number]): Block {
  return {
    name: tool.name,
    ...(tool.description === undefined ? {} : { description: tool.description }),
    input_schema: tool.parameters ?? NO_PARAMETERS,
    ...(tool.strict === true ? { strict: true } : {}),
    ...cacheControlOf(tool.own),
  };
}

/** Whether calls may be made at once is part of the choice here; without tools there is none to make. */
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

/** `safety_identifier` is the convention's newer name for who the user is. */
function metadataOf(body: Block): Block | undefined {
  const { user, safety_identifier: identifier, metadata } = body;
  const id = [user, identifier, fieldsOf(metadata)["user_id"]].find(
    (value) => typeof value === "string",
  );
  return id === undefined ? undefined : { user_id: id };
}

/** https://platform.claude.com/docs/en/build-with-claude/structured-outputs; JSON of any form has no counterpart there. */
function outputConfigOf(body: ChatRequestBody & Block, { effort }: Thinking): Block | undefined {
  const format = formatOf(body);
  if (format?.kind === "json") throw unsupportedPart("response_format", "json_object");
  const config = {
    ...(effort === undefined ? {} : { effort }),
    ...(format === undefined ? {} : { format: { type: "json_schema", schema: format.schema } }),
    ...fieldsOf(body["output_config"]),
  };
  return Object.keys(config).length === 0 ? undefined : config;
}

/** What an effort becomes: https://platform.claude.com/docs/en/build-with-claude/extended-thinking and .../effort */
export interface Thinking {
  readonly thinking?: JsonFields;
  readonly effort?: string;
}

type Effort = NonNullable<ChatRequestBody["reasoning_effort"]>;

/** Tokens that a model of the older kind may think for, where its bound leaves room for them. */
const BUDGETS: Readonly<Record<Effort, number>> = {
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
};
/** The least budget that the interface takes. */
const BUDGET_MIN = 1024;
/** Thoughts count towards the bound, as in the convention: so much of it is left for the answer. */
const ANSWER_SHARE = 0.25;
/** With thinking the interface takes this temperature only, which is its default. */
const TEMPERATURE = 1;
const TOP_P_MIN = 0.95;

/** Models that think: from Claude 3.7 on with a budget, from 4.6 on by an effort. 4.6 has no `xhigh`, but `max`. */
const THINKING_SINCE = 3.07;
const ADAPTIVE_SINCE = 4.06;
const XHIGH_SINCE = 4.07;

/**
 * How much the model is to think. Newer models take the effort itself and refuse a budget, older ones the
 * other way round; a name that tells no version of Claude is asked with a budget, the form that others copied. Left out where
 * the interface would refuse it beside something that the caller asks for in so many words: a forced tool, a temperature
 * or top_p of its own, a bound too small, a loop of calls whose thoughts are not given back.
 */
function thinkingOf(
  body: ChatRequestBody,
  asked: {
    maxTokens: number;
    model: string;
    choice: ChatToolChoice | undefined;
    turns: readonly Turn[];
  },
): Thinking {
  const effort = body.reasoning_effort ?? undefined;
  if (effort === undefined) return {};
  const version = versionOf(asked.model);
  if (version !== undefined && version < THINKING_SINCE) return {};
  const isAdaptive = version !== undefined && version >= ADAPTIVE_SINCE;
  const isBudgeted = version !== undefined && !isAdaptive;
  const allowed = allowsThinking(body, asked.choice) && !lacksReasoning(asked.turns, isBudgeted);
  if (isAdaptive) {
    return {
      effort: effort === "xhigh" && version < XHIGH_SINCE ? "max" : effort,
      // Some of these models hide their thoughts unless they are asked for them.
      ...(allowed ? { thinking: { type: "adaptive", display: "summarized" } } : {}),
    };
  }
  const room = Math.floor(asked.maxTokens * (1 - ANSWER_SHARE));
  const budget = Math.min(BUDGETS[effort], room);
  if (!allowed || budget < BUDGET_MIN) return {};
  return { thinking: { type: "enabled", budget_tokens: budget } };
}

function allowsThinking(body: ChatRequestBody, choice: ChatToolChoice | undefined): boolean {
  const isForced = choice?.kind === "required" || choice?.kind === "tool";
  return (
    !isForced && (body.temperature ?? TEMPERATURE) === TEMPERATURE && (body.top_p ?? 1) >= TOP_P_MIN
  );
}

/**
 * While its calls are answered a model must be given the thoughts that led to them, or it must not think. A Claude that
 * thinks by a budget had them before all else; any other model may have spoken first.
 */
function lacksReasoning(turns: readonly Turn[], mustComeFirst: boolean): boolean {
  const [first] = openCallLoop(turns);
  if (first === undefined) return false;
  const places = mustComeFirst ? first.content.slice(0, 1) : first.content;
  return !places.some(({ type }) => type === "thinking" || type === "redacted_thinking");
}
