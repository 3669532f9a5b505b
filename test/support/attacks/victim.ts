import { quantile } from "../world/growth.ts";
import { markOf, type Way } from "../generation/ways.ts";
import type { PlannedAnswer } from "../generation/plannedAnswer.ts";
import { plannedBytes, type AttackSetup } from "./setup.ts";

/** One request of the calm tenant; rejects or resolves with what came instead of an answer. */
export type VictimAsks = (setup: AttackSetup, number: number) => Promise<string | undefined>;

const askEveryMs = 250;
/** A calm answer takes a fifth of a second. A client that waits longer than this has none. */
const timeoutMs = 8000;

/** Asks four times a second until it is over, whether or not answers come. */
export async function beVictim(
  setup: AttackSetup,
  asks: VictimAsks,
  isOver: () => boolean,
): Promise<void> {
  const { world } = setup;
  const timesMs: number[] = [];
  const asking: Promise<void>[] = [];
  const ask = async (number: number): Promise<void> => {
    const startedMs = performance.now();
    world.count("asked");
    const other = await asks(setup, number).catch((error: unknown) => String(error));
    if (other !== undefined) return world.count(`instead of an answer: ${other}`);
    world.count("got");
    timesMs.push(performance.now() - startedMs);
  };
  while (!isOver()) {
    asking.push(ask(asking.length));
    await Bun.sleep(askEveryMs);
  }
  await Promise.all(asking);
  const [median, slow] = [quantile(timesMs, 0.5), quantile(timesMs, 0.99)].map(Math.round);
  world.figures["victim's answers, in ms"] = { median, slow };
}

const calm: PlannedAnswer = {
  name: "calm",
  promptTokens: 100,
  firstMs: 50,
  hiddenTokens: 0,
  visibleTokens: 20,
};

/** More than a calm answer costs at the usual prices. */
const CALM_ROUBLES_MAX = 0.01;

/** Asks in these ways in turns, on a new connection every other time. Who pays for a dearer model has no answer. */
export function asksFor(ways: readonly Way[]): VictimAsks {
  return async ({ gateway, victimKey }, number) => {
    const way = ways[number % ways.length];
    if (way === undefined) throw new Error("a victim asks in at least one way");
    const [, body = ""] = plannedBytes(victimKey, way, calm).split("\r\n\r\n");
    const answer = await fetch(`${gateway.url}/v1/${way.path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${victimKey}`, "content-type": "application/json" },
      body,
      keepalive: Math.floor(number / ways.length) % 2 === 0,
      signal: AbortSignal.timeout(timeoutMs),
    });
    const text = await answer.text();
    const roubles = Number(answer.headers.get("x-tollgate-cost-rub") ?? 0);
    if (roubles > CALM_ROUBLES_MAX) return `an answer for ${roubles} roubles`;
    if (answer.status === 200 && text.includes(markOf(way))) return undefined;
    return `${answer.status} ${text.slice(0, 160).replaceAll(/req_\w+/g, "req_...")}`;
  };
}
