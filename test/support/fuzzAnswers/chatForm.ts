import { choice, completion, doneEvent, usageOnly } from "../provider/chatAnswers.ts";
import type { Chance } from "../seededRandom.ts";
import { chatEvent } from "../provider/upstreamText.ts";
import type { ReportedTokens, ContentChoice, AnswerContent } from "./answerContent.ts";
import { writtenJson, writtenStream, type Written } from "./dialect.ts";

/** The chat completions interface of OpenAI, with what its imitators do differently. */
export function writeChat(said: AnswerContent, chance: Chance): Written {
  return writtenJson(
    completion({
      choices: said.choices.map((one, index) =>
        choice(messageOf(one, chance), {
          index,
          finish_reason: one.end,
          ...(chance.chance(0.3) ? { logprobs: null } : {}),
        }),
      ),
      usage: said.tokens && usageOf(said.tokens),
      ...(chance.chance(0.3) ? { system_fingerprint: "fp_1", "x-of-the-provider": [1] } : {}),
    }),
  );
}

function messageOf({ texts, thoughts, callArguments }: ContentChoice, chance: Chance): object {
  return {
    content: texts.join(""),
    ...(thoughts.length > 0 ? { reasoning_content: thoughts.join("") } : {}),
    ...(callArguments ? { tool_calls: [callOf(callArguments.join(""))] } : {}),
    ...(chance.chance(0.2) ? { refusal: null, annotations: [] } : {}),
  };
}

function callOf(argumentsText: string): object {
  return { id: "call_1", type: "function", function: { name: "f", arguments: argumentsText } };
}

function usageOf({ prompt, completion, cached, cacheWrite }: ReportedTokens): object {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: cacheWrite },
  };
}

/** Where a provider puts the usage of a stream. */
const usagePlaces = ["after", "after", "with the finish"] as const;

/** Choices come one after the other or mixed. */
export function writeChatStream(said: AnswerContent, chance: Chance): Written {
  const queues = said.choices.map((one, index) => [...deltasOf(one)].map(at(index)));
  const events: string[] = [];
  while (queues.some((queue) => queue.length > 0)) {
    const next = chance.pick(queues.filter((queue) => queue.length > 0)).shift();
    if (next !== undefined) events.push(next);
  }
  const usage = said.tokens && usageOf(said.tokens);
  const place = chance.pick(usagePlaces);
  const last = events.pop() ?? "";
  events.push(usage && place === "with the finish" ? withUsage(last, usage) : last);
  if (usage && place === "after") events.push(usageOnly(usage));
  if (chance.chance(0.9)) events.push(doneEvent);
  return writtenStream(events, (event) => event.includes('"finish_reason":"'));
}

/** The deltas of a choice, each with its finish reason. */
function* deltasOf(one: ContentChoice): Generator<readonly [delta: object, end: string | null]> {
  const { texts, thoughts, callArguments, end } = one;
  yield [{ role: "assistant", content: "" }, null];
  for (const text of thoughts) yield [{ reasoning_content: text }, null];
  for (const text of texts) yield [{ content: text }, null];
  if (callArguments) yield [{ tool_calls: [{ index: 0, ...callOf("") }] }, null];
  for (const text of callArguments ?? [])
    yield [{ tool_calls: [{ index: 0, function: { arguments: text } }] }, null];
  yield [{}, end];
}

function at(index: number) {
  return ([delta, finish_reason]: readonly [object, string | null]): string =>
    chatEvent(delta, finish_reason, { choices: [{ index, delta, finish_reason }] });
}

function withUsage(event: string, usage: object): string {
  return event.replace(/\}\n\n$/, () => `,"usage":${JSON.stringify(usage)}}\n\n`);
}
