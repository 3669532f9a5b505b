import { agentBody } from "./agentBody.ts";
import type { Contestant } from "./contestants.ts";
import { countsOf, growth, type Counts } from "./counts.ts";
import type { Call, Counters } from "./loadOrders.ts";
import { cpuUs } from "./processes.ts";
import type { Load } from "./workers.ts";

/** The body of a request, except where a figure is about its size. */
const BODY_BYTES = 2000;
const ANSWER_TOKENS = 1000;
/** Tollgate ends a stream that is far longer than requested; these never end, or last for 200 MB. */
const ENDLESS_TOKENS = 20_000_000;
const BEGIN_MS_MAX = 30_000;
const POLL_MS = 20;
/** On a busy machine a turn continues until this number is counted, unless that takes too long. */
const COUNT_MIN = 1000;
const PROLONGED_MS_MAX = 15_000;

/** The requests to a contestant, their concurrency, and how long it is measured. */
export interface Turn {
  readonly model: string;
  readonly atOnce: number;
  readonly warmMs: number;
  readonly windowMs: number;
  readonly secure?: boolean;
  readonly bodyBytes?: number;
  /** The body is that of a coding agent, not one long text. */
  readonly isAgent?: boolean;
  /** Each request comes with the next of the contestant's many keys. */
  readonly manyKeys?: boolean;
  /** Each answer is timed. Reading the times takes a while, so CPU time is less exact. */
  readonly isTimed?: boolean;
  /** The least that must be counted; 1000 answers or events unless given. */
  readonly countMin?: number;
}

/** What was counted in a turn. */
export interface Seen {
  readonly cpuUs: number;
  readonly answers: number;
  readonly events: number;
  readonly eventReads: number;
  readonly elapsedMs: number;
  /** The time of each answer in milliseconds; empty if the turn is not timed. */
  readonly answerMs: readonly number[];
  /** What the database server of the first contestant has counted. */
  readonly counts: Counts;
}

/**
 * Sends the load to a contestant and measures for a while: the CPU time of its process, and the answers. Throws when
 * an answer was not the requested one.
 */
export async function watch(load: Load, contestant: Contestant, turn: Turn): Promise<Seen> {
  return await watchAll(load, [contestant], turn);
}

/** The same for several contestants at once, each with the whole load. What is counted is the sum. */
export async function watchAll(
  load: Load,
  contestants: readonly [Contestant, ...Contestant[]],
  turn: Turn,
): Promise<Seen> {
  const { atOnce, windowMs, isTimed = false, countMin = COUNT_MIN } = turn;
  for (const contestant of contestants)
    await load.give({ kind: "loop", atOnce, isTimed, ...callOf(contestant, turn) });
  await Bun.sleep(turn.warmMs);
  if (isStream(turn.model)) await untilBegun(load, atOnce * contestants.length);
  const before = await sample(load, contestants);
  await Bun.sleep(windowMs);
  let after = await sample(load, contestants);
  const answerMs = [...after.loopMs];
  const count = ({ answers, events }: Counters): number => Math.max(answers, events);
  while (
    count(after.counters) - count(before.counters) < countMin &&
    after.atMs - before.atMs < PROLONGED_MS_MAX
  ) {
    await Bun.sleep(windowMs);
    after = await sample(load, contestants);
    answerMs.push(...after.loopMs);
  }
  const { counters } = await load.give({ kind: "stop" });
  throwFailure(contestants[0], counters);
  return {
    cpuUs: after.cpuUs - before.cpuUs,
    answers: after.counters.answers - before.counters.answers,
    events: after.counters.events - before.counters.events,
    eventReads: after.counters.eventReads - before.counters.eventReads,
    elapsedMs: after.atMs - before.atMs,
    answerMs,
    counts: growth(before.counts, after.counts),
  };
}

/** Waits until this number of streams of this load have begun; throws when that takes too long. */
export async function untilBegun(load: Load, count: number): Promise<void> {
  const deadlineMs = performance.now() + BEGIN_MS_MAX;
  for (;;) {
    const { begun, failures, firstFailure } = (await load.give({ kind: "sample" })).counters;
    if (begun >= count) return;
    if (failures > 0 || performance.now() > deadlineMs) {
      throw new Error(`only ${begun} of ${count} streams began ${firstFailure}`);
    }
    await Bun.sleep(POLL_MS);
  }
}

export function throwFailure({ name }: Contestant, { failures, firstFailure }: Counters): void {
  if (failures > 0) throw new Error(`${name}: ${failures} failures, the first: ${firstFailure}`);
}

let fairQueue = 0;

/** Requests that belong to a new turn, in this contestant's form: the provider then ends the streams of earlier turns. */
export function callOf(
  { port, secure, headers, manyHeaders }: Contestant,
  {
    model,
    secure: overTls,
    bodyBytes = BODY_BYTES,
    isAgent = false,
    manyKeys,
  }: Pick<Turn, "model" | "secure" | "bodyBytes" | "isAgent" | "manyKeys">,
): Call {
  fairQueue += 1;
  const asked = overTls ? (secure?.modelPrefix ?? "") + model : model;
  const user = `turn-${fairQueue}`;
  const body = isAgent
    ? agentBody({ model: asked, bytes: bodyBytes, fields: { user, ...settingsOf(asked) } })
    : bodyOf(asked, user, bodyBytes);
  const head = [
    "POST /v1/chat/completions HTTP/1.1",
    "Host: localhost",
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  const to = overTls ? (secure?.port ?? port) : port;
  const requests = (manyKeys ? manyHeaders : [headers]).map(
    (more) => `${head.join("\r\n")}\r\n${more}\r\n${body}`,
  );
  return { port: to, requests };
}

async function sample(load: Load, contestants: readonly [Contestant, ...Contestant[]]) {
  const { counters, loopMs = [] } = await load.give({ kind: "sample" });
  const usedUs = contestants.reduce((sumUs, { child }) => sumUs + cpuUs(child.pid), 0);
  const atMs = performance.now();
  return { counters, loopMs, cpuUs: usedUs, atMs, counts: await countsOf(contestants[0]) };
}

function isStream(model: string): boolean {
  return !model.endsWith("json");
}

/** A stream of so many events. */
function hasEnd(model: string): boolean {
  return /stream-\d+$/.test(model);
}

function settingsOf(model: string): object {
  return {
    ...(isStream(model) ? { stream: true } : {}),
    max_tokens: isStream(model) && !hasEnd(model) ? ENDLESS_TOKENS : ANSWER_TOKENS,
    temperature: 0.7,
  };
}

/** Chat messages of this length, with the line ends and quotes that need escapes. */
function bodyOf(model: string, user: string, bytes: number): string {
  const line = 'A sentence as people write it, "quoted" at times, and then a new line.\n';
  const body = (content: string): string =>
    JSON.stringify({
      model,
      ...settingsOf(model),
      user,
      messages: [
        { role: "system", content: "You are a helpful assistant." },
        { role: "user", content: "What is there to say about this?" },
        { role: "assistant", content: "Much. What would you like to know?" },
        { role: "user", content },
      ],
    });
  const lineBytes = JSON.stringify(line).length - 2;
  return body(line.repeat(Math.max(1, Math.round((bytes - body("").length) / lineBytes))));
}
