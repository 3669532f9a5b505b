import { anthropicDialect } from "../../providers/conformance/anthropicDialect.ts";
import type { Dialect, ExpectedAnswer } from "../../providers/conformance/dialect.ts";
import { geminiDialect } from "../../providers/conformance/geminiDialect.ts";
import { openaiDialect } from "../../providers/conformance/openaiDialect.ts";
import { openaiResponsesDialect } from "../../providers/conformance/openaiResponsesDialect.ts";
import { doneEvent } from "../provider/chatAnswers.ts";
import type { Chance } from "../seededRandom.ts";
import type { Question } from "./answerCase.ts";
import type { AnswerContent, ContentChoice } from "./answerContent.ts";
import { inDialect, writtenJson, writtenStream, type Written } from "./dialect.ts";

/** How an interface says something, and the event with which a choice is whole. */
interface Form {
  readonly dialect: Dialect;
  readonly finish: RegExp;
}

const chat: Form = { dialect: openaiDialect, finish: /"finish_reason":"/ };
const responses: Form = {
  dialect: openaiResponsesDialect,
  finish: /^event: response\.(?:completed|incomplete)\n/,
};
const anthropic: Form = { dialect: anthropicDialect, finish: /^event: message_delta\n/ };
const gemini: Form = { dialect: geminiDialect, finish: /"finishReason":/ };

function formOf({ route, endpoint }: Question): Form {
  if (route.kind === "gemini") return gemini;
  if (route.kind === "anthropic") return anthropic;
  return endpoint === "responses" || route.api === "responses" ? responses : chat;
}

/** The answer in the form of its provider's interface. */
export function writtenIn(question: Question, chance: Chance): Written {
  const { stream, said, number } = question;
  const { dialect, finish } = formOf(question);
  const answers = said.choices.map((one) => answerOf(one, said));
  const named = (text: string): string => text.replaceAll('"resp_1"', `"resp_${number}"`);
  if (!stream) return writtenJson(inChoices(answers.map((one) => named(dialect.json(one)))));
  const streams = answers.map((one) => eventsIn(named(dialect.stream(one))));
  const events = dialect === openaiDialect ? chatEvents(streams, chance) : streams.flat();
  const written = writtenStream(events, (event) => finish.test(event));
  return dialect === geminiDialect ? written : inDialect(written, chance);
}

function answerOf(one: ContentChoice, { tokens }: AnswerContent): ExpectedAnswer {
  const { texts, thoughts, callArguments, end } = one;
  const call = callArguments && { id: "call_1", name: "f", arguments: callArguments.join("") };
  return {
    text: texts.join(""),
    finish: end,
    ...(thoughts.length > 0 && { reasoning: thoughts.join("") }),
    ...(call && { toolCalls: [call] }),
    ...(tokens && { usage: { ...tokens, reasoning: 0 } }),
  };
}

/** One answer of several, each of one choice. */
function inChoices(texts: readonly string[]): object {
  const answers = texts.map((text) => JSON.parse(text) as { choices?: object[] });
  const [first] = answers;
  if (first === undefined || answers.length === 1) return first ?? {};
  const choices = answers.flatMap((one) => one.choices ?? []);
  return { ...first, choices: choices.map((one, index) => Object.assign(one, { index })) };
}

function eventsIn(stream: string): string[] {
  return stream.split(/(?<=\r?\n\r?\n)(?=.)/);
}

const usageEvent = /"choices":\[\],"usage":(\{.*\})\}\n\n$/;

/** Choices come one after the other or mixed, and the usage is where some provider puts it. */
function chatEvents(streams: readonly string[][], chance: Chance): string[] {
  const usage = streams[0]?.find((event) => usageEvent.test(event));
  const queues = streams.map((stream, index) =>
    stream
      .filter((event) => event !== doneEvent && !usageEvent.test(event))
      .map((event) => event.replace('"choices":[{"index":0', `"choices":[{"index":${index}`)),
  );
  const events: string[] = [];
  while (queues.some((queue) => queue.length > 0))
    events.push(chance.pick(queues.filter((queue) => queue.length > 0)).shift() ?? "");
  const [, figures] = usageEvent.exec(usage ?? "") ?? [];
  if (usage !== undefined && chance.chance(0.3))
    events.push(events.pop()?.replace(/\}\n\n$/, () => `,"usage":${figures}}\n\n`) ?? "");
  else if (usage !== undefined) events.push(usage);
  if (chance.chance(0.9)) events.push(doneEvent);
  return events;
}
