import { servicesOf } from "../../contract/serviceTier.ts";
import { readChatUsage } from "../../contract/usage.ts";
import { fieldsOf, rawValue, type JsonFields } from "../../lib/json.ts";
import { scanObject } from "../../lib/jsonObject.ts";
import { splice, spliceBytes, spliceEach } from "../../lib/splice.ts";
import { parseAnswer, reportedFailureOfText } from "../reportedFailure.ts";
import { openaiEmbeddings } from "./openaiEmbeddings.ts";
import { responsesUsage } from "./openaiResponses.ts";
import {
  OPENAI_NAMES,
  type ChatCall,
  type ChatEvent,
  type EncodedRequest,
  type ProviderAdapter,
  type ReadChatEvent,
} from "../provider.ts";

/**
 * The caller's names for `max_tokens`, which is sent under the provider's own name, and a field of the responses
 * interface that the chat interface does not know.
 */
const REMOVED_FIELDS = [
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "reasoningSummary",
];
const REMOVED_WITHOUT_STREAM_USAGE = [...REMOVED_FIELDS, "stream_options"];

const TOOL_CALLS_FIELD = "max_tool_calls";

/** The chat completions and responses interfaces of OpenAI and compatible providers. */
export const openai: ProviderAdapter = {
  headers: (apiKey) => (apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  chat: {
    encode: encodeChat,
    read(text) {
      const completion = parseAnswer(text);
      return {
        completion,
        usage: readChatUsage(completion["usage"]),
        services: servicesOf(completion),
      };
    },
    usage: { name: "usage", read: readChatUsage },
    events: () => readChatEvent,
    eventsStandAlone: true,
    supportsEverything: true,
    takesStop: () => true,
    // OpenAI takes pictures in messages of the user only.
    takes: { hasManyServers: true, picturesInResults: false, toolNames: OPENAI_NAMES },
  },
  responses: {
    encode({ object, model, outputTokensBound: bound, toolCallsMax: calls, dropFields: remove }) {
      const set: Record<string, string> = { model: JSON.stringify(model) };
      if (bound !== undefined) set["max_output_tokens"] = String(bound);
      if (calls !== undefined && !remove.includes(TOOL_CALLS_FIELD))
        set[TOOL_CALLS_FIELD] = String(calls);
      return { path: "/responses", body: spliceBytes(object, { set, remove }) };
    },
    usage: responsesUsage,
  },
  messages: undefined,
  embeddings: openaiEmbeddings,
};

/** The client's own text. Only values that must differ are replaced. */
function encodeChat(call: ChatCall): EncodedRequest {
  const { object, request, outputTokensBound, options } = call;
  const set: Record<string, string> = { model: JSON.stringify(call.model) };
  if (outputTokensBound !== undefined) set[options.maxTokensField] = String(outputTokensBound);
  const messages = messagesWithout(call);
  if (messages !== undefined) set["messages"] = messages;
  if (options.streamUsage && request.stream)
    set["stream_options"] = usageIncluded(rawValue(object, "stream_options"));
  const removed = options.streamUsage ? REMOVED_FIELDS : REMOVED_WITHOUT_STREAM_USAGE;
  const remove = [...removed, ...options.dropFields];
  return { path: "/chat/completions", body: spliceBytes(object, { set, remove }) };
}

/** The messages without the fields that the provider refuses. Undefined if no message has such a field. */
function messagesWithout({ object, request, options }: ChatCall): string | undefined {
  const remove = options.dropMessageFields;
  if (remove.length === 0) return undefined;
  // Each message has a role and may have content.
  const isChanged = remove.some(
    (field) => field === "role" || field === "content" || request.fieldSizes.has(field),
  );
  const text = isChanged ? rawValue(object, "messages") : undefined;
  return text === undefined ? undefined : spliceEach(text, { remove });
}

/** Always asks for usage, because the charge is computed from it. */
function usageIncluded(streamOptions: string | undefined): string {
  if (streamOptions === undefined || streamOptions === "null") return '{"include_usage":true}';
  return splice(scanObject(streamOptions), { set: { include_usage: "true" } });
}

function readChatEvent({ event, data }: Parameters<ReadChatEvent>[0]): ChatEvent {
  if (event === "error") throw reportedFailureOfText(data);
  if (data === "[DONE]") return { kind: "done", isWhole: true };
  if (data === "") return { kind: "nothing" };
  const chunk = parseAnswer(data);
  const usage = readChatUsage(chunk["usage"] ?? usageInChoice(chunk));
  return { kind: "chunk", chunk, usage, services: servicesOf(chunk) };
}

/** Moonshot sends the usage of a stream inside its choice: https://platform.moonshot.ai/docs/api/chat */
function usageInChoice({ choices }: JsonFields): unknown {
  if (!Array.isArray(choices) || choices.length !== 1) return undefined;
  const [choice] = choices as readonly unknown[];
  return fieldsOf(choice)["usage"];
}
