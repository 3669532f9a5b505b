/** The wish of whoever runs the program that it ends. */
export interface StopSignals {
  /** SIGTERM or SIGINT came, or another that was listened for. */
  readonly first: Promise<void>;
  /** A second one came: whoever sent it does not want to wait. */
  readonly second: Promise<void>;
}

/**
 * Listens from now on, for `more` signals too where they are named: one that comes while the program still starts is
 * not lost, and does not kill it.
 */
export function listenForStop(...more: readonly NodeJS.Signals[]): StopSignals {
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  let isAsked = false;
  const onSignal = (): void => {
    if (isAsked) second.resolve();
    isAsked = true;
    first.resolve();
  };
  for (const signal of ["SIGTERM", "SIGINT", ...more] as const) process.on(signal, onSignal);
  return { first: first.promise, second: second.promise };
}
