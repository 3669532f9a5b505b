import type { ChatRequestBody } from "../../contract/chatRequestBody.ts";
import { fieldsOf } from "../../lib/json.ts";
import { cacheControlOf, conversationOf, messagesOf, type Block } from "./anthropicMessages.ts";
import { thinkingOf, type Thinking } from "./anthropicThinking.ts";
import { bodyWithOthers, isGiven, refuseOtherAnswers } from "../chat/chatFields.ts";
import { unfit, unfitPart } from "../chat/chatParts.ts";
import {
  formatOf,
  NO_PARAMETERS,
  toolChoiceOf,
  toolsOf,
  type ChatToolChoice,
} from "../chat/chatTools.ts";
import type { ChatCall, EncodedRequest } from "../provider.ts";

/**
 * A chat request in the words of https://platform.claude.com/docs/en/api/messages. A bound is always sent, for there
 * it is required. Temperatures go as they are, though the interface ends at 1: what it refuses is its to say.
 * Throws UnfitError.
 */
export function encodeMessages(call: ChatCall): EncodedRequest {
  const { request, object, model } = call;
  const body: ChatRequestBody & Block = request.body;
  if (request.choiceCount > 1) throw unfit("n");
  refuseOtherAnswers(body);
  // It names a place in the operator's account that other callers may have put things into.
  if (isGiven(body["container"])) throw unfit("container");
  refuseOtherPlaces(body);
  const { system, turns } = conversationOf(body.messages, model);
  // Of two kinds of instructions one would be lost.
  if (system.length > 0 && isGiven(body["system"])) {
    throw unfit("system beside instructions in messages");
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
function refuseOtherPlaces({ inference_geo: place = null }: Block): void {
  if (place !== null && place !== "global") throw unfit("inference_geo");
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
  if (choice?.kind === "allowed") throw unfit("tool_choice");
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
  if (format?.kind === "json") throw unfitPart("response_format", "json_object");
  const config = {
    ...(effort === undefined ? {} : { effort }),
    ...(format === undefined ? {} : { format: { type: "json_schema", schema: format.schema } }),
    ...fieldsOf(body["output_config"]),
  };
  return Object.keys(config).length === 0 ? undefined : config;
}
