import {
  endEvent,
  message,
  messageEvent,
  pingEvent,
  stopEvent,
} from "../provider/anthropicAnswers.ts";
import { geminiEvent, saying, thought } from "../provider/geminiAnswers.ts";
import type { ReportedTokens, ContentChoice, AnswerContent } from "./answerContent.ts";
import { writtenJson, writtenStream, type Written } from "./dialect.ts";

const stopReasons = {
  stop: "end_turn",
  length: "max_tokens",
  content_filter: "refusal",
  tool_calls: "tool_use",
} as const;

/** The Messages interface of Anthropic, which makes one choice. */
export function writeMessage({ choices: [one], tokens }: AnswerContent): Written {
  if (one === undefined) throw new Error("a message says something");
  const content = blocksOf(one).map(({ block }) => block);
  const usage = tokens && messageUsageOf(tokens);
  return writtenJson(message({ content, stop_reason: stopReasons[one.end], usage }));
}

export function writeMessageStream({ choices: [one], tokens }: AnswerContent): Written {
  if (one === undefined) throw new Error("a message says something");
  const usage = tokens && { ...messageUsageOf(tokens), output_tokens: 1 };
  const begun = message({ content: [], stop_reason: null, usage });
  const events = [
    messageEvent("message_start", { message: begun }),
    pingEvent,
    ...blocksOf(one).flatMap(eventsOfBlock),
    endEvent(tokens ? { output_tokens: tokens.completion } : null).replace(
      '"end_turn"',
      `"${stopReasons[one.end]}"`,
    ),
    stopEvent,
  ];
  return writtenStream(events, (event) => event.startsWith("event: message_delta\n"));
}

function eventsOfBlock({ opening, deltas }: Block, index: number): string[] {
  const added = deltas.map((delta) => messageEvent("content_block_delta", { index, delta }));
  return [
    messageEvent("content_block_start", { index, content_block: opening }),
    ...added,
    messageEvent("content_block_stop", { index }),
  ];
}

/** A block as it is whole, as it begins, and what is added to it in between. */
interface Block {
  readonly block: object;
  readonly opening: object;
  readonly deltas: readonly object[];
}

function blocksOf({ texts, thoughts, callArguments }: ContentChoice): Block[] {
  const thinking = {
    block: { type: "thinking", thinking: thoughts.join(""), signature: "c2lnbmVk" },
    opening: { type: "thinking", thinking: "", signature: "" },
    deltas: [
      ...thoughts.map((text) => ({ type: "thinking_delta", thinking: text })),
      { type: "signature_delta", signature: "c2lnbmVk" },
    ],
  };
  const text = {
    block: { type: "text", text: texts.join("") },
    opening: { type: "text", text: "" },
    deltas: texts.map((piece) => ({ type: "text_delta", text: piece })),
  };
  const json = callArguments?.join("") ?? "{}";
  const call = { type: "tool_use", id: "toolu_1", name: "f" };
  const calling = {
    block: { ...call, input: JSON.parse(json) as unknown },
    opening: { ...call, input: {} },
    deltas: (callArguments ?? []).map((piece) => ({
      type: "input_json_delta",
      partial_json: piece,
    })),
  };
  return [...(thoughts.length > 0 ? [thinking] : []), text, ...(callArguments ? [calling] : [])];
}

/** This interface counts cached tokens beside the other prompt tokens. */
function messageUsageOf({ prompt, completion, cached, cacheWrite }: ReportedTokens): object {
  return {
    input_tokens: prompt - cached - cacheWrite,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: cacheWrite,
    output_tokens: completion,
  };
}

const finishReasons = {
  stop: "STOP",
  length: "MAX_TOKENS",
  content_filter: "SAFETY",
  tool_calls: "STOP",
} as const;

/** The generateContent interface of Google. It knows of no tokens that are written to a cache. */
export function writeCandidates({ choices, tokens }: AnswerContent): Written {
  const parts = choices.flatMap((one) => partsOf(one));
  return writtenJson(saying(parts, finishReasonOf(choices), usageMetadataOf(tokens)));
}

/** Each event is a response with what is new; the usage of the last one counts. */
export function writeCandidatesStream({ choices, tokens }: AnswerContent): Written {
  const parts = choices.flatMap((one) => partsOf(one));
  const events = [
    ...parts.map((part) => saying([part])),
    saying([], finishReasonOf(choices), usageMetadataOf(tokens)),
  ];
  return writtenStream(events.map(geminiEvent), (event) => event.includes('"finishReason":'));
}

function partsOf({ texts, thoughts, callArguments }: ContentChoice): object[] {
  const args: unknown = JSON.parse(callArguments?.join("") ?? "{}");
  return [
    ...thoughts.map(thought),
    ...texts.map((text) => ({ text })),
    ...(callArguments ? [{ functionCall: { name: "f", args } }] : []),
  ];
}

function finishReasonOf([one]: readonly ContentChoice[]): string {
  return finishReasons[one?.end ?? "stop"];
}

function usageMetadataOf(tokens: ReportedTokens | undefined): object {
  if (!tokens) return {};
  const { prompt, completion, cached } = tokens;
  const usageMetadata = {
    promptTokenCount: prompt,
    cachedContentTokenCount: cached,
    candidatesTokenCount: completion,
    totalTokenCount: prompt + completion,
  };
  return { usageMetadata };
}
