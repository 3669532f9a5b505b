import {
  endEvent,
  message,
  messageEvent,
  stopEvent as messageStop,
  textEvent,
} from "../provider/anthropicAnswers.ts";
import { completion, doneEvent, stopEvent, usageOnly } from "../provider/chatAnswers.ts";
import { vectors } from "../provider/embeddingsAnswers.ts";
import type { RawPeer } from "../provider/rawServer.ts";
import { ended, responsesUsage } from "../provider/responsesAnswers.ts";
import {
  json,
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
  type ProviderAnswer,
  type ReceivedRequest,
  type ScriptedProvider,
} from "../provider/scriptedProvider.ts";
import { chatEvent, responseEvent, responseObject } from "../provider/upstreamText.ts";
import { BROKEN } from "./historyPrices.ts";

/** What a provider is to say of the tokens of an answer. */
export interface ReportedTokens {
  readonly prompt: number;
  readonly cached: number;
  readonly cacheWrite: number;
  /** A part of what was written to the cache. Only Anthropic reports it, and searches. */
  readonly hour: number;
  readonly completion: number;
  readonly searches: number;
}

/** How a provider ends an answer; `said`: with these tokens, or with this instead of a usage. */
export type ProviderEnd =
  | { readonly kind: "said"; readonly tokens: ReportedTokens }
  | { readonly kind: "uncounted"; readonly usage: unknown }
  | { readonly kind: "fails" };

/** One request at the provider. */
export interface ControlledAnswer {
  /** Resolves when the provider has the request, and a stream has begun. */
  readonly reached: Promise<ReceivedRequest>;
  end(how: ProviderEnd): void;
}

/** The first thing that every stream says, and all that an answer says before its end. */
export const SAID = "Hello";

const faces = ["chat", "responses", "messages", "embeddings"] as const;
type Face = (typeof faces)[number];

/** Makes a provider wait with each answer until the test ends it. The prompt identifies the request. */
export function answerOnDemand(provider: ScriptedProvider): (words: string) => ControlledAnswer {
  const turns = new Map<
    string,
    { reached(request: ReceivedRequest): void; how: Promise<ProviderEnd> }
  >();
  provider.answer = async (peer, request) => {
    if (request.json["model"] === BROKEN) return refusal(500)(peer, request);
    const turn = turns.get(wordsOf(request));
    if (!turn) throw new Error(`a request of which nothing is known: ${request.body}`);
    const isStream = request.json["stream"] === true;
    const face = faces.find((one) => request.requestLine.includes(`/${one}`)) ?? "chat";
    if (isStream) await raw(streamHead, piece(beginning(face)))(peer, request);
    turn.reached(request);
    await ending(await turn.how, isStream, face)(peer, request);
  };
  return (words) => {
    const reached = Promise.withResolvers<ReceivedRequest>();
    const how = Promise.withResolvers<ProviderEnd>();
    turns.set(words, { reached: reached.resolve, how: how.promise });
    return { reached: reached.promise, end: how.resolve };
  };
}

function wordsOf({ json }: ReceivedRequest): string {
  const { messages = [], input } = json as {
    messages?: { content: string | { text: string }[] }[];
    input?: string;
  };
  const content = input ?? messages[0]?.content ?? "";
  return typeof content === "string" ? content : (content[0]?.text ?? "");
}

function beginning(face: Face): string {
  if (face === "chat") return chatEvent({ content: SAID });
  if (face === "messages") {
    const start = message({ content: [], stop_reason: null, usage: {} });
    return messageEvent("message_start", { message: start }) + textEvent(SAID);
  }
  const created = { sequence_number: 0, response: responseObject("resp_1") };
  const delta = {
    sequence_number: 1,
    item_id: "msg_1",
    output_index: 0,
    content_index: 0,
    delta: SAID,
  };
  return (
    responseEvent("response.created", created) + responseEvent("response.output_text.delta", delta)
  );
}

function ending(how: ProviderEnd, isStream: boolean, face: Face): ProviderAnswer {
  if (how.kind === "fails") return isStream ? hangUp : refusal(500);
  const usage = how.kind === "uncounted" ? how.usage : usageOf(how.tokens, face);
  if (isStream) return raw(piece(lastEvents(face, usage)), streamEnd);
  switch (face) {
    case "chat":
      return json(answer(usage));
    case "responses":
      return json(ended("resp_1", { usage }));
    case "messages":
      return json(message({ content: [{ type: "text", text: SAID }], usage }));
    case "embeddings":
      return json(vectors({ usage }));
  }
}

function lastEvents(face: Face, usage: unknown): string {
  if (face === "chat") return [stopEvent, usageOnly(usage), doneEvent].join("");
  if (face === "messages") return endEvent(usage ?? null) + messageStop;
  const response = ended("resp_1", { usage });
  return responseEvent("response.completed", { sequence_number: 2, response });
}

function answer(usage: unknown): object {
  const message = { role: "assistant", content: SAID };
  return completion({ usage, choices: [{ index: 0, finish_reason: "stop", message }] });
}

function hangUp(peer: RawPeer): void {
  peer.reset();
}

function usageOf(tokens: ReportedTokens, face: Face): object {
  const { prompt, cached, cacheWrite, hour, completion, searches } = tokens;
  const details = { cached_tokens: cached, cache_write_tokens: cacheWrite };
  switch (face) {
    case "chat":
      return {
        prompt_tokens: prompt,
        completion_tokens: completion,
        prompt_tokens_details: details,
      };
    case "responses":
      return {
        ...responsesUsage,
        input_tokens: prompt,
        output_tokens: completion,
        input_tokens_details: details,
      };
    case "messages":
      return {
        input_tokens: prompt,
        cache_read_input_tokens: cached,
        cache_creation_input_tokens: cacheWrite,
        cache_creation: {
          ephemeral_5m_input_tokens: cacheWrite - hour,
          ephemeral_1h_input_tokens: hour,
        },
        output_tokens: completion,
        server_tool_use: { web_search_requests: searches },
      };
    case "embeddings":
      return { prompt_tokens: prompt, total_tokens: prompt };
  }
}
