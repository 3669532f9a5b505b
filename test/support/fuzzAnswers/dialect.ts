import type { Chance } from "../seededRandom.ts";

const lineEnds = ["\n", "\r\n", "\r"] as const;
const additions = [": a comment\n\n", ":\n\n", "id: 7\n", "retry: 10\n", "\n"] as const;

/** The same stream in other words, of which the standard says that they mean the same. */
export function inDialect(written: Written, chance: Chance): Written {
  const { events, finish } = written;
  let changed = events;
  if (chance.chance(0.2)) changed = changed.map((event) => event.replace(/^data: /gm, "data:"));
  if (chance.chance(0.2))
    changed = changed.map((event) => (chance.chance(0.2) ? chance.pick(additions) + event : event));
  if (chance.chance(0.25)) {
    const lineEnd = chance.pick(lineEnds);
    changed = changed.map((event) => event.replaceAll(/\r?\n/g, lineEnd));
  }
  if (chance.chance(0.05))
    changed = changed.map((event, at) => (at === 0 ? `\uFEFF${event}` : event));
  return { events: changed, finish };
}

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
