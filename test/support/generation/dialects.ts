import {
  message,
  messageEvent,
  stopEvent as messageStop,
  textEvent,
} from "../provider/anthropicAnswers.ts";
import {
  choice,
  completion,
  doneEvent,
  roleEvent,
  stopEvent as chatStop,
  usageOnly,
} from "../provider/chatAnswers.ts";
import { geminiEvent, saying, thought } from "../provider/geminiAnswers.ts";
import { ended } from "../provider/responsesAnswers.ts";
import { chatEvent, responseEvent, responseObject } from "../provider/upstreamText.ts";

/** What a provider has generated of an answer. */
export interface Counted {
  readonly prompt: number;
  readonly hidden: number;
  readonly visible: number;
}

/** How a metered answer is written in one interface. A text may be several events, or none. */
export interface Dialect {
  /** The first events come before the reasoning, whatever the provider's habit is. */
  readonly startsEarly: boolean;
  /** The first events. */
  readonly opening: (id: string, counted: Counted) => string;
  /** Tells from time to time that it still reasons. */
  readonly sign: string;
  /** A part of the summary of the reasoning. */
  readonly summary: (text: string, counted: Counted) => string;
  /** Between the reasoning and the text. */
  readonly turn: string;
  readonly text: (text: string, counted: Counted) => string;
  /** The end of the stream. */
  readonly ending: (id: string, counted: Counted) => string;
  /** The whole answer in JSON. */
  readonly whole: (id: string, text: string, counted: Counted) => object;
}

const chatUsage = ({ prompt, hidden, visible }: Counted): object => ({
  prompt_tokens: prompt,
  completion_tokens: hidden + visible,
  total_tokens: prompt + hidden + visible,
  completion_tokens_details: { reasoning_tokens: hidden },
});

const chat: Dialect = {
  startsEarly: false,
  opening: () => roleEvent,
  sign: ": processing\n\n",
  summary: (text) => chatEvent({ reasoning_content: text }),
  turn: "",
  text: (text) => chatEvent({ content: text }),
  ending: (_, counted) => chatStop + usageOnly(chatUsage(counted)) + doneEvent,
  whole: (_, text, counted) =>
    completion({ choices: [choice({ content: text })], usage: chatUsage(counted) }),
};

const responsesUsage = ({ prompt, hidden, visible }: Counted): object => ({
  input_tokens: prompt,
  output_tokens: hidden + visible,
  output_tokens_details: { reasoning_tokens: hidden },
  total_tokens: prompt + hidden + visible,
});

const reasoningItem = { id: "rs_1", type: "reasoning", summary: [] };
const textItem = { id: "msg_1", type: "message", role: "assistant", content: [] };

const responses: Dialect = {
  startsEarly: true,
  opening: (id) => {
    const response = responseObject(id);
    return (
      responseEvent("response.created", { response }) +
      responseEvent("response.in_progress", { response }) +
      responseEvent("response.output_item.added", { output_index: 0, item: reasoningItem })
    );
  },
  sign: ": processing\n\n",
  summary: (text) =>
    responseEvent("response.reasoning_summary_text.delta", {
      item_id: "rs_1",
      output_index: 0,
      summary_index: 0,
      delta: text,
    }),
  turn:
    responseEvent("response.output_item.done", { output_index: 0, item: reasoningItem }) +
    responseEvent("response.output_item.added", { output_index: 1, item: textItem }),
  text: (text) =>
    responseEvent("response.output_text.delta", {
      item_id: "msg_1",
      output_index: 1,
      content_index: 0,
      delta: text,
    }),
  ending: (id, counted) =>
    responseEvent("response.completed", {
      response: ended(id, { usage: responsesUsage(counted) }),
    }),
  whole: (id, _, counted) => ended(id, { usage: responsesUsage(counted) }),
};

const started = (counted: Counted): object => ({
  input_tokens: counted.prompt,
  output_tokens: 1,
});

const block = (index: number, type: string): string =>
  messageEvent("content_block_start", { index, content_block: { type, [type]: "" } });
const blockEnd = (index: number): string => messageEvent("content_block_stop", { index });

const messages: Dialect = {
  startsEarly: true,
  opening: (_, counted) =>
    messageEvent("message_start", {
      message: message({ content: [], stop_reason: null, usage: started(counted) }),
    }) + block(0, "thinking"),
  sign: messageEvent("ping"),
  summary: (text) =>
    messageEvent("content_block_delta", {
      index: 0,
      delta: { type: "thinking_delta", thinking: text },
    }),
  turn: blockEnd(0) + block(1, "text"),
  text: (text) => textEvent(text).replace('"index":0', '"index":1'),
  ending: (_, { hidden, visible }) =>
    blockEnd(1) +
    messageEvent("message_delta", {
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: hidden + visible },
    }) +
    messageStop,
  whole: (_, text, { prompt, hidden, visible }) =>
    message({
      content: [{ type: "text", text }],
      usage: { input_tokens: prompt, output_tokens: hidden + visible },
    }),
};

const usageMetadata = ({ prompt, hidden, visible }: Counted): object => ({
  promptTokenCount: prompt,
  candidatesTokenCount: visible,
  thoughtsTokenCount: hidden,
  totalTokenCount: prompt + hidden + visible,
});

const gemini: Dialect = {
  startsEarly: false,
  opening: () => "",
  sign: "",
  summary: (text, counted) =>
    geminiEvent(saying([thought(text)], undefined, { usageMetadata: usageMetadata(counted) })),
  turn: "",
  text: (text, counted) =>
    geminiEvent(saying([{ text }], undefined, { usageMetadata: usageMetadata(counted) })),
  ending: (_, counted) =>
    geminiEvent(saying([{ text: "" }], "STOP", { usageMetadata: usageMetadata(counted) })),
  whole: (_, text, counted) =>
    saying([{ text }], "STOP", { usageMetadata: usageMetadata(counted) }),
};

/** The dialect of a request to a provider, by its request line. */
export function dialectOf(requestLine: string): Dialect {
  if (requestLine.includes("/chat/completions ")) return chat;
  if (requestLine.includes("/responses ")) return responses;
  if (requestLine.includes("/messages ")) return messages;
  if (requestLine.includes("enerateContent")) return gemini;
  throw new Error(`no metered answer to ${requestLine}`);
}
