import { assert } from "../lib/assert.ts";

/**
 * Work on the database, written once for both engines. `yield*` gets the rows of a query: SQLite has them at once,
 * PostgreSQL sends them later. So a step yields a promise to wait for, or nothing where long work may pause.
 */
export type Steps<Result> = Generator<Awaited, Result, unknown>;

/** What a step waits for. Undefined: it may pause. */
export type Awaited = PromiseLike<unknown> | undefined;

/** Runs work on SQLite, without a pause. */
export function runSync<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    assert(value === undefined, "work on SQLite waits for nothing");
  }
}

/** Runs work on PostgreSQL, or on either engine. */
export async function runAsync<Result>(steps: Steps<Result>): Promise<Result> {
  let step = steps.next();
  while (step.done !== true) step = (await awaitStep(steps, step.value))();
  return step.value;
}

/** Waits for what a step yields. Resolves with a function that hands over the outcome and runs the next step. */
export async function awaitStep<Result>(
  steps: Steps<Result>,
  awaited: Awaited,
): Promise<() => IteratorResult<Awaited, Result>> {
  try {
    const value = await awaited;
    return () => steps.next(value);
  } catch (error) {
    return () => steps.throw(error);
  }
}

/**
 * The same steps. `pass` yields what each of them waits for, and returns the value. If it throws, or if the result is not
 * wanted any more, the steps end there: they leave no transaction open.
 */
export function* stepByStep<Result>(
  steps: Steps<Result>,
  pass: (awaited: Awaited) => Steps<unknown>,
): Steps<Result> {
  let step = steps.next();
  try {
    while (step.done !== true) {
      let value: unknown;
      try {
        value = yield* pass(step.value);
      } catch (error) {
        step = steps.throw(error);
        continue;
      }
      step = steps.next(value);
    }
    return step.value;
  } finally {
    if (step.done !== true) steps.return(undefined as never);
  }
}

/** One step that waits for nothing. */
export function* doNow<Value>(work: () => Value): Steps<Value> {
  yield* NOTHING;
  return work();
}

const NOTHING: readonly undefined[] = [];

/** One step that waits for a promise. */
export function* waitFor<Value>(promise: PromiseLike<Value>): Steps<Value> {
  return (yield promise) as Value;
}

/** The same functions. They return their results at once. */
export type Sync<Part> = {
  readonly [Name in keyof Part]: Part[Name] extends (...args: infer Args) => Steps<infer Result>
    ? (...args: Args) => Result
    : Part[Name];
};

/** The same functions. They return promises. */
export type Async<Part> = {
  readonly [Name in keyof Part]: Part[Name] extends (...args: infer Args) => Steps<infer Result>
    ? (...args: Args) => Promise<Result>
    : Part[Name];
};

type StepFunction = (...args: readonly never[]) => Steps<unknown>;

/** All functions of `part` return steps. */
export function asSync<Part extends object>(part: Part): Sync<Part> {
  return mapped(part, (make) => runSync(make())) as Sync<Part>;
}

/** All functions of `part` return steps. `run` may make them again, as after a lost connection. */
export function asAsync<Part extends object>(
  part: Part,
  run: (make: () => Steps<unknown>) => Promise<unknown>,
): Async<Part> {
  return mapped(part, run) as Async<Part>;
}

function mapped(part: object, run: (make: () => Steps<unknown>) => unknown): object {
  const functions = Object.entries(part) as readonly [string, StepFunction][];
  return Object.fromEntries(
    functions.map(([name, steps]) => [name, (...args: never[]) => run(() => steps(...args))]),
  );
}
