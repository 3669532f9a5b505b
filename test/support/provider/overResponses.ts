import { chunksOf, type Reply } from "../gateway/chatCalls.ts";
import type { ConfiguredModel } from "../gateway/gatewayConfig.ts";
import { ended } from "./responsesAnswers.ts";
import { responseEvent, responseObject } from "./upstreamText.ts";

/** Shared by the tests of chats over the responses interface; in the form that OpenAI documents. */

/** `small` is served over the responses interface of `over`, and `paired` over the chat interface of `plain` too. */
export const modelsOver: readonly ConfiguredModel[] = [
  { id: "small", routes: [{ provider: "over", model: "m", api: "responses" }] },
  {
    id: "paired",
    routes: [
      { provider: "over", api: "responses" },
      { provider: "plain", api: "chat" },
    ],
  },
];

/** The usage of every response in these tests, as the client of a chat receives it. */
export const shownUsage = {
  prompt_tokens: 20,
  completion_tokens: 7,
  total_tokens: 27,
  prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 3 },
};

const reasoning = { type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }] };
const message = { type: "message", content: [{ type: "output_text", text: "Hello there" }] };
export const output = [reasoning, message];
export const call = { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" };

/** The events of a stream: its beginning, pieces of a text, and its end. */
export const begun = responseEvent("response.created", { response: responseObject("resp_1") });
export function textDelta(text: string): string {
  return responseEvent("response.output_text.delta", { delta: text });
}
export function endOf(status: string, changes: object = {}): string {
  return responseEvent(`response.${status}`, {
    response: ended("resp_1", { status, output, ...changes }),
  });
}

/** A whole stream: a thought, a text in two pieces, and the end. */
export const wholeStream: readonly string[] = [
  begun,
  responseEvent("response.reasoning_summary_text.delta", { delta: "Hm." }),
  textDelta("Hello"),
  textDelta(" there"),
  endOf("completed"),
];

interface ShownChoice {
  readonly delta: { readonly role?: string; readonly content?: string };
  readonly finish_reason: string | null;
}

export function choicesOf(reply: Reply): ShownChoice[] {
  return chunksOf(reply).flatMap((chunk) => chunk["choices"] as ShownChoice[]);
}

/** The concatenated text of a stream. */
export function textOf(reply: Reply): string {
  return choicesOf(reply)
    .map(({ delta }) => delta.content ?? "")
    .join("");
}
