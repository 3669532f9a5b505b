/** The wish of whoever runs the program that it ends. */
export interface StopSignals {
  /** SIGTERM or SIGINT came. */
  readonly first: Promise<void>;
  /** A second one came: whoever sent it does not want to wait. */
  readonly second: Promise<void>;
}

/** Listens from now on: a signal that comes while the program still starts is not lost, and does not kill it. */
export function listenForStop(): StopSignals {
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  let isAsked = false;
  const onSignal = (): void => {
    if (isAsked) second.resolve();
    isAsked = true;
    first.resolve();
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  return { first: first.promise, second: second.promise };
}
