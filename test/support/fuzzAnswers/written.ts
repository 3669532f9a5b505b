/** An answer in the form of an interface. */
export interface Written {
  /** The events of a stream, each with its end; of JSON it is the one text. */
  readonly events: readonly string[];
  /** With which event the first choice is whole, and with which the last. */
  readonly finish: { readonly first: number; readonly last: number };
}

/** A JSON answer is whole with its last byte. */
export function writtenJson(value: unknown): Written {
  return { events: [JSON.stringify(value)], finish: { first: 0, last: 0 } };
}

/** The events of an answer of one choice, which is whole with the event that `isFinish` is true of. */
export function writtenStream(
  events: readonly string[],
  isFinish: (event: string) => boolean,
): Written {
  return {
    events,
    finish: { first: events.findIndex(isFinish), last: events.findLastIndex(isFinish) },
  };
}
