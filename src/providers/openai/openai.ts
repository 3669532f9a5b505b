import { readChatUsage } from "../../contract/usage.ts";
import { fieldsOf, rawValue, scanObject, type JsonFields } from "../../lib/json.ts";
import { splice, spliceBytes, spliceEach } from "../../lib/splice.ts";
import { parseAnswer, reportedFailureOfText } from "../reportedFailure.ts";
import { responsesUsage } from "./openaiResponses.ts";
import type {
  ChatCall,
  ChatEvent,
  EncodedRequest,
  ProviderAdapter,
  ReadChatEvent,
} from "../provider.ts";

/** The names under which a caller may give the bound of its answer; it travels under the provider's own. */
const BOUND_FIELDS = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
/** Meant for the responses interface; the chat interface does not know it. */
const RESPONSES_ONLY_FIELDS = ["reasoningSummary"];

/** The chat completions and responses interfaces of OpenAI, and of all that speak them. */
export const openai: ProviderAdapter = {
  headers: (apiKey) => (apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  chat: {
    encode: encodeChat,
    read(text) {
      const completion = parseAnswer(text);
      return { completion, usage: readChatUsage(completion["usage"]) };
    },
    usage: { name: "usage", read: readChatUsage },
    events: () => readChatEvent,
    eventsStandAlone: true,
    takesAll: true,
    takesStop: true,
  },
  responses: {
    encode: (object, model) => ({
      path: "/responses",
      body: spliceBytes(object, { set: { model: JSON.stringify(model) } }),
    }),
    usage: responsesUsage,
  },
};

/** The client's own text, with only the values changed that must differ. */
function encodeChat(call: ChatCall): EncodedRequest {
  const { object, request, outputTokensBound, options } = call;
  const set: Record<string, string> = { model: JSON.stringify(call.model) };
  if (outputTokensBound !== undefined) set[options.maxTokensField] = String(outputTokensBound);
  const messages = messagesWithout(call);
  if (messages !== undefined) set["messages"] = messages;
  const remove = [...BOUND_FIELDS, ...RESPONSES_ONLY_FIELDS];
  if (!options.streamUsage) remove.push("stream_options");
  else if (request.stream)
    set["stream_options"] = usageIncluded(rawValue(object, "stream_options"));
  return { path: "/chat/completions", body: spliceBytes(object, { set, remove }) };
}

/** The messages without the fields that the provider refuses; undefined where they have none of them. */
function messagesWithout({ object, request, options }: ChatCall): string | undefined {
  const remove = options.dropMessageFields;
  const { messages } = request.body;
  const isLeft = messages.every(
    (message) => !remove.some((field) => Object.hasOwn(message, field)),
  );
  const text = isLeft ? undefined : rawValue(object, "messages");
  return text === undefined ? undefined : spliceEach(text, { remove });
}

/** Usage is asked for wherever it may be: it is what the answer is billed by. */
function usageIncluded(streamOptions: string | undefined): string {
  if (streamOptions === undefined || streamOptions === "null") return '{"include_usage":true}';
  return splice(scanObject(streamOptions), { set: { include_usage: "true" } });
}

function readChatEvent({ event, data }: Parameters<ReadChatEvent>[0]): ChatEvent {
  if (event === "error") throw reportedFailureOfText(data);
  if (data === "[DONE]") return { kind: "done", isWhole: true };
  if (data === "") return { kind: "nothing" };
  const chunk = parseAnswer(data);
  return { kind: "chunk", chunk, usage: readChatUsage(chunk["usage"] ?? usageInChoice(chunk)) };
}

/** Where Moonshot has it in a stream: https://platform.moonshot.ai/docs/api/chat */
function usageInChoice({ choices }: JsonFields): unknown {
  if (!Array.isArray(choices) || choices.length !== 1) return undefined;
  const [choice] = choices as readonly unknown[];
  return fieldsOf(choice)["usage"];
}
