import type { Chance } from "../fuzz/chance.ts";
import type { Written } from "./written.ts";

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
