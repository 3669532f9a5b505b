// One measurement of one client, in a process of its own, for bench/upstreamClients.ts. Prints one line of JSON.
import { EVENTS_PER_STREAM } from "./upstreamLoad.ts";
import type { LoadClient, VariantName } from "./upstreamLoad.ts";
import { loadClient } from "./upstreamVariants.ts";

const WARM_UP_REQUESTS = 20_000;
const MEASURED_REQUESTS = 40_000;
const MEASURED_EVENTS = 48_000;
const HEADS_MS_MAX = 3000;
const HOLD_MS = 800;
const OTHER_SERVER_REQUESTS = 21;
const OTHER_SERVER_MS_MAX = 2000;

/** The result of one run: CPU us per request or event, or ms; or the reason why there is no figure. */
export type RunResult = { figure: number } | { words: string };

/** User and system time of the whole process, its helper threads included, in microseconds. */
function cpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

async function requests(client: LoadClient, total: number, atOnce: number): Promise<void> {
  let left = total;
  const work = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await client.json();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}

async function measureJson(client: LoadClient, atOnce: number): Promise<RunResult> {
  await requests(client, WARM_UP_REQUESTS, atOnce);
  const before = cpuUs();
  await requests(client, MEASURED_REQUESTS, atOnce);
  return { figure: (cpuUs() - before) / MEASURED_REQUESTS };
}

/** Opens streams and reads them to their end; the CPU time counts from when all are open. */
async function streamRound(client: LoadClient, atOnce: number): Promise<number | string> {
  const allOpen = Promise.withResolvers<void>();
  let openCount = 0;
  const onFirst = (): void => {
    openCount += 1;
    if (openCount === atOnce) {
      allOpen.resolve();
    }
  };
  const ends = Array.from({ length: atOnce }, () => client.stream(`/stream/${atOnce}`, onFirst));
  await Promise.race([allOpen.promise, Bun.sleep(HEADS_MS_MAX)]);
  if (openCount < atOnce) {
    return `only ${openCount} open`;
  }
  const before = cpuUs();
  await Promise.all(ends);
  return cpuUs() - before;
}

async function measureStreams(client: LoadClient, atOnce: number): Promise<RunResult> {
  const rounds = Math.max(1, Math.round(MEASURED_EVENTS / (atOnce * EVENTS_PER_STREAM)));
  let totalUs = 0;
  // The first round warms up; with many streams it has as many events as all rounds of few.
  for (let round = 0; round <= rounds; round += 1) {
    const us = await streamRound(client, atOnce);
    if (typeof us === "string") {
      return { words: us };
    }
    totalUs += round === 0 ? 0 : us;
  }
  return { figure: totalUs / (rounds * atOnce * EVENTS_PER_STREAM) };
}

/** The median time of a request to another server while `atOnce` streams are held open. */
async function measureOther(
  client: LoadClient,
  other: LoadClient,
  atOnce: number,
): Promise<RunResult> {
  for (let count = 0; count < 200; count += 1) {
    await other.json();
  }
  const held = Array.from({ length: atOnce }, () => client.stream("/hold", () => {}));
  await Promise.race([...held, Bun.sleep(HOLD_MS)]);
  const times: number[] = [];
  for (let count = 0; count < OTHER_SERVER_REQUESTS; count += 1) {
    const before = performance.now();
    const answer = await Promise.race([other.json(), Bun.sleep(OTHER_SERVER_MS_MAX)]);
    if (answer === undefined) {
      return { words: `none in ${OTHER_SERVER_MS_MAX} ms` };
    }
    times.push(performance.now() - before);
  }
  times.sort((a, b) => a - b);
  return { figure: times[times.length >> 1] ?? 0 };
}

const [variant, mode, atOnceText, origin = "", otherOrigin = "", undici] = process.argv.slice(2);
const client = await loadClient(variant as VariantName, origin, undici);
const atOnce = Number(atOnceText);
const result =
  mode === "json"
    ? await measureJson(client, atOnce)
    : mode === "streams"
      ? await measureStreams(client, atOnce)
      : await measureOther(
          client,
          await loadClient(variant as VariantName, otherOrigin, undici),
          atOnce,
        );
console.log(JSON.stringify(result));
process.exit(0);
