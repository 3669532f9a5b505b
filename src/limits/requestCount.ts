/** Requests that were let in and are not over. */
export interface RequestCount {
  begin(): void;
  end(): void;
  readonly open: number;
  /** Those of them whose answer is a stream that has begun. */
  openStreams: number;
  /** Resolves when none is open; one at a time may wait. */
  whenNone(): Promise<void>;
}

export function countRequests(): RequestCount {
  let open = 0;
  let none: (() => void) | undefined;
  return {
    openStreams: 0,
    get open() {
      return open;
    },
    begin() {
      open += 1;
    },
    end() {
      open -= 1;
      if (open === 0) none?.();
    },
    whenNone: () =>
      new Promise((resolve) => {
        none = resolve;
        if (open === 0) resolve();
      }),
  };
}
