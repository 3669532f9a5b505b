import type { Steps } from "../../../src/store/store.ts";

/** The parts that long work hands over, on either engine. Each is read when it is asked for. */
export async function* partsOf<Part>(
  work: (visit: (part: Part) => void) => Steps<void>,
): AsyncGenerator<Part, void> {
  const parts: Part[] = [];
  const steps = work((part) => parts.push(part));
  while (!(await isDoneAtPause(steps))) yield* parts.splice(0);
  yield* parts;
}

/** Runs steps until they may pause. Returns true at their end. */
export async function isDoneAtPause(steps: Steps<unknown>): Promise<boolean> {
  let step = steps.next();
  while (step.done !== true && step.value !== undefined) step = steps.next(await step.value);
  return step.done === true;
}
