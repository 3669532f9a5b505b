import { isProviderCall } from "../../contract/responses/responsesRequest.ts";
import { readReasoningTokens, readResponsesUsage } from "../../contract/usage.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { parseAnswer, withoutIndex, reportedFailureOf } from "../reportedFailure.ts";
import { encodeChat } from "./openaiResponsesRequest.ts";
import { ResponsesOutput, type Said } from "./openaiResponsesOutput.ts";
import {
  AnswerError,
  type ChatEvent,
  type ChatInterface,
  type ChatReply,
  type ReadChatEvent,
  type UsageMember,
} from "../provider.ts";

export const responsesUsage: UsageMember = { name: "usage", read: readResponsesUsage };

/**
 * Chat over the responses interface of OpenAI, and of those that imitate it:
 * https://platform.openai.com/docs/api-reference/responses.
 */
export const openaiResponses: ChatInterface = {
  encode: encodeChat,
  read: readResponse,
  usage: responsesUsage,
  events: eventReader,
  eventsStandAlone: false,
  takesAll: false,
  takesStop: false,
};

function readResponse(text: string): ChatReply {
  const response = parseAnswer(text);
  if (!Array.isArray(response["output"])) throw new AnswerError("the answer has no output");
  const saying = new ResponsesOutput();
  const { finishReason, usage, shownUsage } = readEnd(response, saying, response["status"]);
  const { content = null, tool_calls: calls, logprobs, ...others } = saying.takeLast();
  const message = {
    role: "assistant",
    content,
    ...others,
    ...(calls && { tool_calls: calls.map(withoutIndex) }),
  };
  const choices = [{ index: 0, message, ...besides(logprobs), finish_reason: finishReason }];
  return { completion: { ...createdOf(response), choices, usage: shownUsage }, usage };
}

/** What stands in a choice of a chat beside what it says. */
function besides(logprobs: Said["logprobs"]): JsonFields {
  return logprobs ? { logprobs: { content: logprobs, refusal: null } } : {};
}

/** The events of https://platform.openai.com/docs/api-reference/responses-streaming; those of no concern to a chat are passed over. */
function eventReader(): ReadChatEvent {
  const saying = new ResponsesOutput();
  let created: JsonFields = {};
  let hasRole = false;
  const chunk = (finishReason: string | null, more: JsonFields = {}): JsonFields => {
    const role = hasRole ? {} : { role: "assistant" };
    hasRole = true;
    const { logprobs, ...said } = finishReason === null ? saying.take() : saying.takeLast();
    const delta = { ...role, ...said };
    const choice = { index: 0, delta, ...besides(logprobs), finish_reason: finishReason };
    return { ...created, choices: [choice], ...more };
  };
  return ({ event, data }): ChatEvent => {
    // Imitators end their streams as those of chats end; what counts is the response's own end.
    if (data === "" || data === "[DONE]") return { kind: "nothing" };
    const fields = parseAnswer(data);
    const type = typeof fields["type"] === "string" ? fields["type"] : (event ?? "");
    switch (type) {
      case "error":
        throw reportedFailureOf(fields);
      case "response.failed":
        throw failedOf(fields["response"]);
      case "response.created":
        created = createdOf(fields["response"]);
        break;
      case "response.completed":
      case "response.incomplete": {
        const { response } = fields;
        if (!isJsonObject(response)) throw new AnswerError("a response event has no response");
        const status = response["status"] ?? type.slice("response.".length);
        const { finishReason, usage, shownUsage } = readEnd(response, saying, status);
        const last = chunk(finishReason, { usage: shownUsage });
        return { kind: "chunk", chunk: last, usage, isLast: true };
      }
      default:
        sayEvent(saying, type, fields);
    }
    const item = fieldsOf(fields["item"]);
    const { encrypted_content: thought } = item;
    const isWhole = type === "response.output_item.done";
    const sealed = isWhole && typeof thought === "string" ? thought.length : 0;
    const ranTool = isWhole && isProviderCall(item);
    return saying.hasNews
      ? { kind: "chunk", chunk: chunk(null), usage: undefined, sealed }
      : { kind: "nothing", sealed, ranTool };
  };
}

function sayEvent(saying: ResponsesOutput, type: string, event: JsonFields): void {
  const { delta, text, item, output_index: outputIndex, item_id: itemId } = event;
  const partOf = (index: unknown): string => `${String(outputIndex ?? itemId)} ${String(index)}`;
  switch (type) {
    case "response.output_text.delta":
    case "response.output_text.done":
      saying.say("text", type, delta ?? text);
      saying.sayLogprobs(type, event["logprobs"]);
      break;
    case "response.refusal.delta":
    case "response.refusal.done":
      saying.say("refusal", type, delta ?? event["refusal"]);
      break;
    case "response.reasoning_summary_text.delta":
    case "response.reasoning_summary_text.done":
      saying.say("summary", type, delta ?? text, partOf(event["summary_index"]));
      break;
    case "response.reasoning_text.delta":
    case "response.reasoning_text.done":
      saying.say("reasoning", type, delta ?? text, partOf(event["content_index"]));
      break;
    case "response.function_call_arguments.delta":
    case "response.function_call_arguments.done":
      saying.addToCall(saying.callOf(event), type, delta ?? event["arguments"]);
      break;
    case "response.custom_tool_call_input.delta":
    case "response.custom_tool_call_input.done":
      saying.addToCall(saying.callOf(event), type, delta ?? event["input"]);
      break;
    case "response.output_item.added":
      if (isJsonObject(item) && isCall(item)) saying.openCall(item, outputIndex);
      break;
    case "response.output_item.done":
      saying.sayItem(item, type, outputIndex);
  }
}

function isCall(item: JsonFields): boolean {
  return item["type"] === "function_call" || item["type"] === "custom_tool_call";
}

/** Says what is left to be said of a finished response, and how it ended. Throws AnswerError where it did not finish. */
function readEnd(response: JsonFields, saying: ResponsesOutput, status: unknown) {
  const { output, usage: reported } = response;
  if (isJsonObject(response["error"])) throw reportedFailureOf(response);
  const items: readonly unknown[] = Array.isArray(output) ? output : [];
  for (const [index, item] of items.entries()) saying.sayItem(item, "response", index);
  const finishReason = finishReasonOf(response, status, saying.callsTools);
  const reasoningTokens = readReasoningTokens(reported);
  const details = { completion_tokens_details: { reasoning_tokens: reasoningTokens } };
  const shownUsage = reasoningTokens === undefined ? undefined : details;
  return { finishReason, usage: readResponsesUsage(reported), shownUsage };
}

function finishReasonOf(response: JsonFields, status: unknown, callsTools: boolean): string {
  if (status === "incomplete") {
    const { reason } = fieldsOf(response["incomplete_details"]);
    // Whatever else cut it, it must not look whole.
    return reason === "content_filter" ? "content_filter" : "length";
  }
  if (status === "failed") throw failedOf(response);
  if (status !== undefined && status !== null && status !== "completed") {
    throw new AnswerError("the response did not finish");
  }
  return callsTools ? "tool_calls" : "stop";
}

/** The failure of a response whose event, or whose status, says that it failed. */
function failedOf(response: unknown): AnswerError {
  return reportedFailureOf({ ...(isJsonObject(response) && response), status: "failed" });
}

function createdOf(response: unknown): JsonFields {
  return isJsonObject(response) ? { created: response["created_at"] } : {};
}
