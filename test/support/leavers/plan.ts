import { answerMs, tokensMs, type PlannedAnswer } from "../generation/plannedAnswer.ts";
import type { Leaving } from "../generation/timedClient.ts";
import type { Way } from "../generation/ways.ts";
import type { Chance } from "../seededRandom.ts";
import { leaverRoutes, type LeaverRoute } from "./routes.ts";

/** Where its client leaves an answer. `early`: before the first token. `tail`: in the last tenth of the text. */
export type Stage = "early" | "reasoning" | "text" | "tail" | "stays";

/** One request of a client. */
export interface LeaverPlan {
  readonly route: LeaverRoute;
  readonly way: Way;
  readonly answer: PlannedAnswer;
  /** What the gateway estimates for the prompt by its bytes. */
  readonly promptEstimate: number;
  readonly leaving: Leaving | undefined;
}

const promptTokens: readonly [number, number] = [200, 4000];
const visibleTokens: readonly [number, number] = [60, 1200];
const firstMs: readonly [number, number] = [200, 2000];
/** Of 100 clients. */
const STAYING = 30;
const TAIL_SHARE = 0.1;

/** A request over one of all ways of a route. Answers and waits are shorter than usual by the scale. */
export function drawPlan(random: Chance, timeScale: number): LeaverPlan {
  const route = random.pick(leaverRoutes);
  const way = random.pick(route.ways);
  const [least, most] = route.hiddenSeconds;
  const hiddenSeconds = most === 0 ? 0 : between(random, least, most) * timeScale;
  const promptEstimate = Math.round(between(random, ...promptTokens));
  const answer: PlannedAnswer = {
    name: "unnamed",
    // Some tokenizers need more than one token for four bytes, and some fewer.
    promptTokens: Math.round(promptEstimate * (0.9 + random.below(21) / 100)),
    firstMs: Math.round(between(random, ...firstMs) * timeScale),
    hiddenTokens: Math.round(hiddenSeconds * route.habit.tokensPerSecond),
    visibleTokens: Math.round(between(random, ...visibleTokens) * timeScale),
    pace: (95 + random.below(11)) / 100,
  };
  const stays = random.below(100) < STAYING;
  const leaving = stays ? undefined : drawLeaving(random, route, answer);
  return { route, way, answer, promptEstimate, leaving };
}

/** A third leaves at any moment, a third in the text, and a third in its tail. */
function drawLeaving(random: Chance, route: LeaverRoute, answer: PlannedAnswer): Leaving {
  const { tokensPerSecond } = route.habit;
  const allMs = answerMs(answer, tokensPerSecond);
  const textMs = tokensMs(answer, answer.visibleTokens, tokensPerSecond);
  const startMs = random.pick([0, allMs - textMs, allMs - textMs * TAIL_SHARE]);
  const afterMs = startMs + ((allMs - startMs) * random.below(1000)) / 1000;
  return { afterMs, how: random.chance(0.5) ? "fin" : "reset" };
}

/** Where a client is that leaves after so long; undefined: it stays. */
export function stageAt({ route, answer }: LeaverPlan, afterMs: number | undefined): Stage {
  if (afterMs === undefined) return "stays";
  const { tokensPerSecond } = route.habit;
  const allMs = answerMs(answer, tokensPerSecond);
  const textMs = tokensMs(answer, answer.visibleTokens, tokensPerSecond);
  if (afterMs < answer.firstMs) return "early";
  if (afterMs < allMs - textMs) return "reasoning";
  return afterMs < allMs - textMs * TAIL_SHARE ? "text" : "tail";
}

/** Small values are as frequent as large ones of the same ratio. */
function between(random: Chance, least: number, most: number): number {
  return least * (most / least) ** (random.below(10_000) / 10_000);
}
