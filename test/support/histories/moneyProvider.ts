import { completion, doneEvent, stopEvent, usageOnly } from "../provider/chatAnswers.ts";
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

/** What a provider is to say of the tokens of an answer. */
export interface ReportedTokens {
  readonly prompt: number;
  readonly cached: number;
  readonly cacheWrite: number;
  readonly completion: number;
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

/** Makes a provider wait with each answer until the test ends it. The prompt identifies the request. */
export function answerOnDemand(provider: ScriptedProvider): (words: string) => ControlledAnswer {
  const turns = new Map<
    string,
    { reached(request: ReceivedRequest): void; how: Promise<ProviderEnd> }
  >();
  provider.answer = async (peer, request) => {
    const turn = turns.get(wordsOf(request));
    if (!turn) throw new Error(`a request of which nothing is known: ${request.body}`);
    const isStream = request.json["stream"] === true;
    const isChat = request.requestLine.includes("/chat/");
    if (isStream) await raw(streamHead, piece(beginning(isChat)))(peer, request);
    turn.reached(request);
    await ending(await turn.how, isStream, isChat)(peer, request);
  };
  return (words) => {
    const reached = Promise.withResolvers<ReceivedRequest>();
    const how = Promise.withResolvers<ProviderEnd>();
    turns.set(words, { reached: reached.resolve, how: how.promise });
    return { reached: reached.promise, end: how.resolve };
  };
}

function wordsOf({ json }: ReceivedRequest): string {
  const { messages = [], input } = json as { messages?: { content: string }[]; input?: string };
  return input ?? messages[0]?.content ?? "";
}

function beginning(isChat: boolean): string {
  if (isChat) return chatEvent({ content: SAID });
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

function ending(how: ProviderEnd, isStream: boolean, isChat: boolean): ProviderAnswer {
  if (how.kind === "fails") return isStream ? hangUp : refusal(500);
  const usage = how.kind === "uncounted" ? how.usage : usageOf(how.tokens, isChat);
  if (!isStream) return json(isChat ? answer(usage) : ended("resp_1", { usage }));
  const response = ended("resp_1", { usage });
  const end = isChat
    ? [stopEvent, usageOnly(usage), doneEvent].join("")
    : responseEvent("response.completed", { sequence_number: 2, response });
  return raw(piece(end), streamEnd);
}

function answer(usage: unknown): object {
  const message = { role: "assistant", content: SAID };
  return completion({ usage, choices: [{ index: 0, finish_reason: "stop", message }] });
}

function hangUp(peer: RawPeer): void {
  peer.reset();
}

function usageOf(
  { prompt, cached, cacheWrite, completion }: ReportedTokens,
  isChat: boolean,
): object {
  const details = { cached_tokens: cached, cache_write_tokens: cacheWrite };
  return isChat
    ? { prompt_tokens: prompt, completion_tokens: completion, prompt_tokens_details: details }
    : {
        ...responsesUsage,
        input_tokens: prompt,
        output_tokens: completion,
        input_tokens_details: details,
      };
}
