import { afterAll, beforeAll, expect, test } from "bun:test";
import { seededRandom } from "../../support/seededRandom.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { nanoOf } from "../../support/faults/faultSetup.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
  type RequestRecord,
} from "../../support/binary/gatewayProcess.ts";
import {
  answerNumbered,
  isAnswer,
  numberedCost,
  numbered,
  numberIn,
} from "../../support/faults/numberedAnswers.ts";
import {
  refusal,
  startProvider,
  stream,
  text,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import { amount } from "../../support/sample.ts";

/**
 * Requests whose first provider fails every second time. Whoever answers one reports the usage that
 * belongs to its number, so that the sum of all charges is known exactly.
 */
const requestCount = amount(600, 2000);
const askedAtOnce = 50;
const seed = 5;
/** So many that few breakers open: the failures are to be made good one by one. */
const modelCount = requestCount / 4;
const testTimeoutMs = 180_000;
const credit = 100_000n;
/** The share of requests under way that may be third attempts. */
const thirdsShare = 0.2;

const faults: Readonly<Record<string, ProviderAnswer>> = {
  "500": refusal(500),
  closed: (peer) => peer.fin(),
  reset: (peer) => peer.reset(),
  broken: (peer, request) =>
    (request.json["stream"] === true ? stream("data: {nonsense\n\n") : text('{"choices":['))(
      peer,
      request,
    ),
};

const random = seededRandom(seed);
/** For each request whether a provider fails it, and how. */
function plan(): readonly (ProviderAnswer | undefined)[] {
  const kinds = Object.values(faults);
  return Array.from({ length: requestCount }, () =>
    random.chance(0.5) ? random.pick(kinds) : undefined,
  );
}

/** A provider that fails as planned, and the numbers of the requests that came to it. */
function startFlaky(failures: readonly (ProviderAnswer | undefined)[], seen: Set<number>) {
  const provider = startProvider((peer, request) => {
    const number = numberIn(request);
    seen.add(number);
    return (failures[number] ?? answerNumbered)(peer, request);
  });
  provider.probeAnswer = usual;
  return provider;
}

const [firstFails, secondFails] = [plan(), plan()];
const seen = { first: new Set<number>(), second: new Set<number>(), last: new Set<number>() };
const first = startFlaky(firstFails, seen.first);
const second = startFlaky(secondFails, seen.second);
/** The circuit breaker does not count a 404. */
const missing = startProvider(refusal(404));
const last = startProvider(async (peer, request) => {
  const number = numberIn(request);
  seen.last.add(number);
  thirdsNow += isThird(number) ? 1 : 0;
  thirdsMost = Math.max(thirdsMost, thirdsNow);
  if (number >= requestCount) await Bun.sleep(thirdTakesMs);
  thirdsNow -= isThird(number) ? 1 : 0;
  await answerNumbered(peer, request);
});
const thirdTakesMs = 300;
let thirdsNow = 0;
let thirdsMost = 0;

/** Every fifth model has a second flaky route before the healthy one. */
function hasThreeRoutes(number: number): boolean {
  return number % modelCount < modelCount / 5;
}

/** Both providers before the last one fail the request; those above the count are the second test's. */
function isThird(number: number): boolean {
  if (number >= requestCount) return true;
  return hasThreeRoutes(number) && !!firstFails[number] && !!secondFails[number];
}

const url = ({ port }: { port: number }) => `http://127.0.0.1:${port}/v1`;
let gateway: GatewayProcess;
let key: string;

beforeAll(async () => {
  gateway = await startGatewayProcess({
    providers: {
      first: url(first),
      second: url(second),
      missing: url(missing),
      last: url(last),
    },
    models: [
      ...Array.from({ length: modelCount }, (_, at) => ({
        id: `model-${at}`,
        routes: (hasThreeRoutes(at) ? ["first", "second", "last"] : ["first", "last"]).map(
          (provider) => ({ provider }),
        ),
      })),
      {
        id: "twice-missing",
        routes: [
          { provider: "missing", model: "one" },
          { provider: "missing", model: "two" },
          { provider: "last" },
        ],
      },
    ],
  });
  key = await gateway.key("alice", String(credit));
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  for (const provider of [first, second, missing, last]) provider.stop();
});

interface Outcome {
  readonly number: number;
  readonly id: string;
  readonly isServed: boolean;
}

/** Asks for these numbers, so many at once; an answer that is neither the right one nor a 502 fails the test. */
async function askAll(
  numbers: readonly number[],
  atOnce: number,
  modelOf: (number: number) => string,
): Promise<Outcome[]> {
  const waiting = [...numbers];
  const outcomes: Outcome[] = [];
  const context = async (): Promise<void> => {
    for (let number = waiting.pop(); number !== undefined; number = waiting.pop()) {
      const body = { model: modelOf(number), stream: number % 2 === 0, ...numbered(number) };
      const reply = await chat(gateway, { key }, body);
      const isServed = reply.status === 200;
      if (!(isServed ? isAnswer(number, reply) : reply.status === 502))
        throw new Error(`request ${number} was answered ${reply.status}: ${reply.text}`);
      outcomes.push({ number, id: reply.id, isServed });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, context));
  return outcomes;
}

type Listed = RequestRecord & { readonly attempt_count: number };

async function balance(): Promise<bigint> {
  const shown = await gateway.cli.json("balance", "show", "alice");
  return nanoOf((shown as { balance_rub: string }).balance_rub);
}

/** Checks that the record of each request agrees with what its client received. */
async function fundsReaderOf(outcomes: readonly Outcome[]): Promise<Listed[]> {
  const limit = String(2 * requestCount);
  const listed = (await gateway.cli.json("requests", "--limit", limit)) as Listed[];
  const byId = new Map(listed.map((record) => [record.id, record]));
  return outcomes.map(({ id, number, isServed }) => {
    const record = byId.get(id);
    if (record === undefined) throw new Error(`there is no record of ${id}`);
    expect([number, record.status, nanoOf(record.cost_rub), record.estimated]).toEqual(
      isServed ? [number, "done", numberedCost(number), false] : [number, "failed", 0n, false],
    );
    return record;
  });
}

test(
  `A fails half of ${requestCount} requests: none is lost that B could serve, third attempts stay within their budget, charges are exact`,
  async () => {
    const numbers = Array.from({ length: requestCount }, (_, number) => number);
    const before = await balance();
    const startedMs = performance.now();
    const outcomes = await askAll(numbers, askedAtOnce, (number) => `model-${number % modelCount}`);
    const seconds = (performance.now() - startedMs) / 1000;

    // Only a request that needed a third attempt may go without: the budget had none left for it.
    const lost = outcomes.filter(({ isServed }) => !isServed);
    expect(lost.filter(({ number }) => !isThird(number))).toEqual([]);
    const served = outcomes.filter(({ isServed }) => isServed);
    const charges = served.reduce((sum, { number }) => sum + numberedCost(number), 0n);
    expect(before - (await balance())).toBe(charges);

    const records = await fundsReaderOf(outcomes);
    const attempts = records.reduce((sum, { attempt_count: count }) => sum + count, 0);
    expect(attempts).toBe(seen.first.size + seen.second.size + seen.last.size);
    const thirds = records.filter(({ attempt_count: count }) => count === 3);
    expect(thirds.length).toBeGreaterThan(0);
    expect(thirds.length).toBeLessThanOrEqual(requestCount * thirdsShare);
    expect(thirdsMost).toBeLessThanOrEqual(askedAtOnce * thirdsShare);
    process.stdout.write(
      `seed ${seed}: ${requestCount} requests in ${seconds.toFixed(1)} s, ${attempts} attempts, ${thirds.length} of them third ones, ${lost.length} requests beyond the budget\n`,
    );
  },
  testTimeoutMs,
);

test(
  "a hundred requests at once that fail twice: a fifth of them at most is tried a third time",
  async () => {
    const atOnce = 100;
    const numbers = Array.from({ length: atOnce }, (_, at) => requestCount + at);
    const before = await balance();
    thirdsMost = 0;
    const outcomes = await askAll(numbers, atOnce, () => "twice-missing");
    const served = outcomes.filter(({ isServed }) => isServed);
    expect(thirdsMost).toBeWithin(3, atOnce * thirdsShare + 1);
    expect(served.length).toBeWithin(3, atOnce);
    const charges = served.reduce((sum, { number }) => sum + numberedCost(number), 0n);
    expect(before - (await balance())).toBe(charges);
    for (const [at, { attempt_count: count }] of (await fundsReaderOf(outcomes)).entries())
      expect(count).toBe(outcomes[at]?.isServed === true ? 3 : 2);
  },
  testTimeoutMs,
);

test("the audit finds no problem, and nothing is held", () => gateway.expectAuditPasses());
