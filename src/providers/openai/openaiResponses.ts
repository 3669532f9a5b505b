import { ItemCounter, isProviderCall, toolCountsOf } from "../../contract/responses.ts";
import { servicesOf } from "../../contract/serviceTier.ts";
import { readReasoningTokens, readResponsesUsage } from "../../contract/usage.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { parseAnswer, reportedFailureOf } from "../reportedFailure.ts";
import { encodeChat } from "./openaiResponsesRequest.ts";
import { ResponsesOutput, type OutputDelta } from "./openaiResponsesOutput.ts";
import {
  AnswerError,
  OPENAI_NAMES,
  type ChatEvent,
  type ChatInterface,
  type ChatReply,
  type ReadChatEvent,
  type UsageMember,
  withoutIndex,
} from "../provider.ts";

export const responsesUsage: UsageMember = {
  name: "usage",
  read: (value) => readResponsesUsage(value),
};

/**
 * Chat over the responses interface of OpenAI and compatible servers:
 * https://platform.openai.com/docs/api-reference/responses
 */
export const openaiResponses: ChatInterface = {
  encode: encodeChat,
  read: readResponse,
  usage: responsesUsage,
  events: eventReader,
  eventsStandAlone: false,
  supportsEverything: false,
  takesStop: () => false,
  takes: { hasManyServers: false, picturesInResults: true, toolNames: OPENAI_NAMES },
};

function readResponse(text: string): ChatReply {
  const response = parseAnswer(text);
  if (!Array.isArray(response["output"])) throw new AnswerError("the answer has no output");
  const output = new ResponsesOutput();
  const { finishReason, usage, publicUsage } = readEnd(response, output, response["status"]);
  const { content = null, tool_calls: calls, logprobs, ...others } = output.takeLast();
  const message = {
    role: "assistant",
    content,
    ...others,
    ...(calls && { tool_calls: calls.map(withoutIndex) }),
  };
  const choices = [{ index: 0, message, ...logprobsField(logprobs), finish_reason: finishReason }];
  return {
    completion: { ...createdOf(response), choices, usage: publicUsage },
    usage,
    services: servicesOf(response),
  };
}

function logprobsField(logprobs: OutputDelta["logprobs"]): JsonFields {
  return logprobs ? { logprobs: { content: logprobs, refusal: null } } : {};
}

/**
 * Reads the events of https://platform.openai.com/docs/api-reference/responses-streaming. Events without a
 * counterpart in a chat are skipped.
 */
function eventReader(): ReadChatEvent {
  const output = new ResponsesOutput();
  const items = new ItemCounter();
  let created: JsonFields = {};
  let hasRole = false;
  const chunk = (finishReason: string | null, more: JsonFields = {}): JsonFields => {
    const role = hasRole ? {} : { role: "assistant" };
    hasRole = true;
    const { logprobs, ...news } = finishReason === null ? output.take() : output.takeLast();
    const delta = { ...role, ...news };
    const choice = { index: 0, delta, ...logprobsField(logprobs), finish_reason: finishReason };
    return { ...created, choices: [choice], ...more };
  };
  return ({ event, data }): ChatEvent => {
    // Compatible servers also send the [DONE] of chat streams. Only the last event of the response ends the stream.
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
        items.readTools(fieldsOf(fields["response"])["tools"]);
        break;
      case "response.completed":
      case "response.incomplete": {
        const { response } = fields;
        if (!isJsonObject(response)) throw new AnswerError("a response event has no response");
        const status = response["status"] ?? type.slice("response.".length);
        const { finishReason, usage, publicUsage } = readEnd(response, output, status, items);
        const last = chunk(finishReason, { usage: publicUsage });
        const services = servicesOf(response);
        return { kind: "chunk", chunk: last, usage, isLast: true, services };
      }
      default:
        addEvent(output, type, fields);
    }
    const item = fieldsOf(fields["item"]);
    const { encrypted_content: encrypted } = item;
    const isWhole = type === "response.output_item.done";
    const encryptedLength = isWhole && typeof encrypted === "string" ? encrypted.length : 0;
    const ranTool = isWhole && isProviderCall(item);
    if (isWhole) items.add(item);
    else items.begin(item);
    const { counts } = items;
    return output.hasDelta
      ? { kind: "chunk", chunk: chunk(null), usage: undefined, encryptedLength, counts }
      : { kind: "nothing", encryptedLength, ranTool, counts };
  };
}

function addEvent(output: ResponsesOutput, type: string, event: JsonFields): void {
  const { delta, text, item, output_index: outputIndex, item_id: itemId } = event;
  const partOf = (index: unknown): string => `${String(outputIndex ?? itemId)} ${String(index)}`;
  switch (type) {
    case "response.output_text.delta":
    case "response.output_text.done":
      output.addText("text", type, delta ?? text);
      output.addLogprobs(type, event["logprobs"]);
      break;
    case "response.refusal.delta":
    case "response.refusal.done":
      output.addText("refusal", type, delta ?? event["refusal"]);
      break;
    case "response.reasoning_summary_text.delta":
    case "response.reasoning_summary_text.done":
      output.addText("summary", type, delta ?? text, partOf(event["summary_index"]));
      break;
    case "response.reasoning_text.delta":
    case "response.reasoning_text.done":
      output.addText("reasoning", type, delta ?? text, partOf(event["content_index"]));
      break;
    case "response.function_call_arguments.delta":
    case "response.function_call_arguments.done":
      output.addToCall(output.callOf(event), type, delta ?? event["arguments"]);
      break;
    case "response.custom_tool_call_input.delta":
    case "response.custom_tool_call_input.done":
      output.addToCall(output.callOf(event), type, delta ?? event["input"]);
      break;
    case "response.output_item.added":
      if (isJsonObject(item) && isCall(item)) output.openCall(item, outputIndex);
      break;
    case "response.output_item.done":
      output.addItem(item, type, outputIndex);
  }
}

function isCall(item: JsonFields): boolean {
  return item["type"] === "function_call" || item["type"] === "custom_tool_call";
}

/** Adds what the deltas did not bring, and reads how the response ended. Throws AnswerError if it did not finish. */
function readEnd(
  response: JsonFields,
  collected: ResponsesOutput,
  status: unknown,
  counted?: ItemCounter,
) {
  const { output, usage: reported } = response;
  if (isJsonObject(response["error"])) throw reportedFailureOf(response);
  const items: readonly unknown[] = Array.isArray(output) ? output : [];
  for (const [index, item] of items.entries()) collected.addItem(item, "response", index);
  const finishReason = finishReasonOf(response, status, collected.callsTools);
  const reasoningTokens = readReasoningTokens(reported);
  const details = { completion_tokens_details: { reasoning_tokens: reasoningTokens } };
  const usage = readResponsesUsage(reported, toolCountsOf(response, counted));
  const publicUsage = reasoningTokens === undefined ? undefined : details;
  return { finishReason, usage, publicUsage };
}

function finishReasonOf(response: JsonFields, status: unknown, callsTools: boolean): string {
  if (status === "incomplete") {
    const { reason } = fieldsOf(response["incomplete_details"]);
    // Any other reason must not look complete.
    return reason === "content_filter" ? "content_filter" : "length";
  }
  if (status === "failed") throw failedOf(response);
  if (status !== undefined && status !== null && status !== "completed") {
    throw new AnswerError("the response did not finish");
  }
  return callsTools ? "tool_calls" : "stop";
}

function failedOf(response: unknown): AnswerError {
  return reportedFailureOf({ ...(isJsonObject(response) && response), status: "failed" });
}

function createdOf(response: unknown): JsonFields {
  return isJsonObject(response) ? { created: response["created_at"] } : {};
}
