import { weighed, type Chance } from "../seededRandom.ts";
import type { AnswerCase, Question, Route } from "./answerCase.ts";
import { planAnswer } from "./planAnswer.ts";
import { writtenIn } from "./forms.ts";
import { drawAnswerContent, tagOf } from "./answerContent.ts";

/** A provider for some requests in a row, mostly of the kind openai. */
export function drawRoute(chance: Chance): Route {
  const kind = weighed(chance, [
    [4, "openai"],
    [2, "anthropic"],
    [2, "gemini"],
  ] as const);
  return {
    kind,
    api: kind === "openai" && chance.chance(0.25) ? "responses" : "chat",
    hasShortTimeouts: chance.chance(0.2),
    hasBackup: chance.chance(0.3),
  };
}

/** A request over a route, and what its provider does with it. */
export function drawCase(
  { number, model, route }: Pick<Question, "number" | "model" | "route">,
  chance: Chance,
): AnswerCase {
  const speaksChat = route.kind === "openai" && route.api === "chat";
  const endpoint = speaksChat && chance.chance(0.4) ? "responses" : "chat";
  const isSeveral = speaksChat && endpoint === "chat" && chance.chance(0.15);
  const choiceCount = isSeveral ? 2 + chance.below(2) : 1;
  const question: Question = {
    number,
    model,
    route,
    endpoint,
    stream: chance.chance(0.6),
    showsUsage: chance.chance(0.6),
    said: drawAnswerContent(
      tagOf(number),
      { choiceCount, countsWrites: route.kind !== "gemini" },
      chance,
    ),
  };
  return { ...question, ...planAnswer(question, writtenIn(question, chance), chance) };
}
