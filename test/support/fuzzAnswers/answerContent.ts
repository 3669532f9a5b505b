import {
  completion,
  choice,
  usage,
  doneEvent,
  stopEvent,
  usageEvent,
} from "../provider/chatAnswers.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { ended, terminal } from "../provider/responsesAnswers.ts";
import { json, stream, type ProviderAnswer } from "../provider/scriptedProvider.ts";
import { chatEvent, responseEvent } from "../provider/upstreamText.ts";
import { oddTexts } from "../fuzz/bodies.ts";
import type { Chance } from "../seededRandom.ts";
import { several } from "../several.ts";

/** The reported tokens of an answer. Cached and written ones are part of the prompt's. */
export interface ReportedTokens {
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
  readonly cacheWrite: number;
}

/** The content of one answer, independent of the interface. */
export interface AnswerContent {
  /** Unique in a run; the first piece of each choice contains it. */
  readonly tag: string;
  readonly choices: readonly ContentChoice[];
  /** Undefined where the provider reports none. */
  readonly tokens: ReportedTokens | undefined;
}

export interface ContentChoice {
  /** In the pieces of a stream. */
  readonly texts: readonly string[];
  readonly thoughts: readonly string[];
  /** The pieces of the arguments of its one call; undefined where it makes none. */
  readonly callArguments: readonly string[] | undefined;
  readonly end: "stop" | "length" | "content_filter" | "tool_calls";
}

/** The text that identifies an answer. */
export function tagOf(number: number): string {
  return `«${number}»`;
}

const piecesMax = 8;
const tokensMax = 5000;

/** `countsWrites`: the interface has a figure for tokens that are written to a cache. */
export function drawAnswerContent(
  tag: string,
  { choiceCount, countsWrites }: { readonly choiceCount: number; readonly countsWrites: boolean },
  chance: Chance,
): AnswerContent {
  const { cacheWrite, ...tokens } = drawTokens(chance);
  return {
    tag,
    choices: several(choiceCount, () => drawChoice(tag, chance)),
    tokens: chance.chance(0.9)
      ? { ...tokens, cacheWrite: countsWrites ? cacheWrite : 0 }
      : undefined,
  };
}

function drawChoice(tag: string, chance: Chance): ContentChoice {
  const callsTool = chance.chance(0.2);
  return {
    texts: [tag, ...several(chance.below(piecesMax), () => chance.pick(oddTexts))],
    thoughts: chance.chance(0.2) ? several(1 + chance.below(3), () => chance.pick(oddTexts)) : [],
    callArguments: callsTool ? ['{"a":', `"${chance.below(100)}"`, "}"] : undefined,
    end: callsTool ? "tool_calls" : chance.pick(["stop", "stop", "length", "content_filter"]),
  };
}

function drawTokens(chance: Chance): ReportedTokens {
  const prompt = chance.below(tokensMax);
  const cached = chance.chance(0.5) ? chance.below(prompt + 1) : 0;
  const cacheWrite = chance.chance(0.3) ? chance.below(prompt - cached + 1) : 0;
  return { prompt, cached, cacheWrite, completion: 1 + chance.below(tokensMax) };
}

/** The text of the backup provider, which identifies its answers. */
export function backupText(number: number): string {
  return `${tagOf(number)} of the next one`;
}

/** The cost of each of its answers. */
export const backupCharge = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** Answers as it should, whichever way it is asked. */
export function answerOfBackup(number: number): ProviderAnswer {
  const content = backupText(number);
  const id = `resp_of_next_${number}`;
  const part = { type: "output_text", text: content, annotations: [] };
  const output = [{ id: `msg_${id}`, type: "message", role: "assistant", content: [part] }];
  return (peer, request) => {
    const isStream = request.json["stream"] === true;
    const answer = request.requestLine.includes("/responses")
      ? isStream
        ? stream(
            responseEvent("response.output_text.delta", { output_index: 0, delta: content }),
            terminal("completed", id, { output }),
          )
        : json(ended(id, { output }))
      : isStream
        ? stream(chatEvent({ content }), stopEvent, usageEvent, doneEvent)
        : json(completion({ choices: [choice({ content })], usage }));
    return answer(peer, request);
  };
}
