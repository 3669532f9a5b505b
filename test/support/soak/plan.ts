import { completionForms, type CompletionForm } from "../faults/faultAnswers.ts";
import { chanceOf, weighed } from "../seededRandom.ts";
import type { DisconnectWay } from "../world/connection.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { requestFor, showsUsage } from "../world/asks.ts";

/** `half` of the answer is sent; then the connection ends, or nothing follows. */
export type Fault =
  | "status 400"
  | "status 429"
  | "status 500"
  | "status 503"
  | "page"
  | "fin"
  | "reset"
  | "stall"
  | "half and fin"
  | "half and reset"
  | "half and stall";

/** How a request may end. `broken`: a stream whose end reports a failure. */
export type Outcome = "whole" | "broken" | "400" | "502";

/** The plan of one request. Its client and its provider both derive it from the number. */
export interface Plan {
  readonly number: number;
  readonly form: CompletionForm;
  /** `paired` has a second route to a healthy provider, `single` has none. */
  readonly model: "single" | "paired";
  /** The fault of the faulty provider. */
  readonly fault: Fault | undefined;
  /** The client disconnects during the answer. */
  readonly leaving: { readonly how: DisconnectWay; readonly afterMs: number } | undefined;
  /** Between two pieces of the answer, and before a JSON answer. */
  readonly paceMs: number;
  /** Uses a new connection, not that of an earlier request. */
  readonly isFresh: boolean;
  readonly promptChars: number;
  readonly asksForUsage: boolean;
  /** All that it may end with. */
  readonly outcomes: readonly Outcome[];
}

/** Every twentieth, and no two in a row: five in a row would open the circuit breaker. */
const faultEvery = 20;
const faultAt = 7;
/** Another last digit, so that no disconnect meets a fault. */
const leavesEvery = 50;
const leavesAt = 11;
const leavesWithinMs = 200;
const leftPaceMs = 100;
const slowPaceMs = 20;
const promptCharsMax = 4000;

const faults: readonly (readonly [weight: number, fault: Fault])[] = [
  [2, "status 400"],
  [2, "status 429"],
  [2, "status 500"],
  [2, "status 503"],
  [2, "page"],
  [2, "fin"],
  [2, "reset"],
  [1, "stall"],
  [2, "half and fin"],
  [2, "half and reset"],
  [1, "half and stall"],
];

export function planOf(seed: number, number: number): Plan {
  const chance = chanceOf(seed, number);
  const form = chance.pick(completionForms);
  const drawn = number % faultEvery === faultAt ? weighed(chance, faults) : undefined;
  // A route that asks to wait would be skipped, and the model has no other.
  const model = drawn === "status 429" || chance.chance(0.5) ? "paired" : "single";
  const leaves = number % leavesEvery === leavesAt;
  const isSlow = chance.chance(0.2);
  return {
    number,
    form,
    model,
    fault: drawn,
    leaving: leaves
      ? { how: chance.pick(["fin", "reset"]), afterMs: chance.below(leavesWithinMs) }
      : undefined,
    paceMs: leaves ? leftPaceMs : isSlow ? slowPaceMs : 0,
    isFresh: chance.chance(0.1),
    promptChars: chance.below(promptCharsMax),
    asksForUsage: chance.chance(0.5),
    outcomes: outcomesOf(drawn, form, model),
  };
}

function outcomesOf(
  fault: Fault | undefined,
  form: CompletionForm,
  model: Plan["model"],
): readonly Outcome[] {
  if (fault === undefined) return ["whole"];
  // During a cooldown after a 429 all requests for the pair go to the healthy provider.
  const beside: readonly Outcome[] = model === "paired" ? ["whole"] : [];
  if (fault === "status 400") return [...beside, "400"];
  const before: readonly Outcome[] = model === "paired" ? beside : ["502"];
  const hasContent = fault.startsWith("half") && form.endsWith("stream");
  if (!hasContent) return before;
  // A reset may overtake what was sent before it.
  return fault === "half and reset" ? [...before, "broken"] : [...beside, "broken"];
}

/** The reported usage of a request. The prompt's figure determines the others. */
export function figuresOf(number: number): { prompt: number; completion: number; cached: number } {
  return figuresFor(promptMin + (number % promptSpread));
}

export function chargeOf(number: number): bigint {
  return costOf(figuresOf(number));
}

const promptMin = 20;
const promptSpread = 97;

/** The figures for a prompt of this many tokens. */
export function figuresFor(prompt: number): { prompt: number; completion: number; cached: number } {
  return { prompt, completion: 1 + ((prompt * 31) % 89), cached: prompt % 7 };
}

/** The bytes of a request. Its prompt begins with the number. */
export function requestOf({ number, form, model, promptChars, asksForUsage }: Plan, key: string) {
  const prompt = `${number} ${"word ".repeat(promptChars / 5)}`;
  const usage = form === "chat stream" && asksForUsage ? showsUsage : {};
  return requestFor(key, form, { model, prompt, ...usage });
}

/** The number of a request, from the text in which it reached its provider. */
export function plannedNumberIn(text: string): number {
  return Number(/"(?:content|input)":"(\d+) /.exec(text)?.[1]);
}
