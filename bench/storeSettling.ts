import { idMaker, systemRandom } from "../src/lib/random.ts";
import { systemClock, DAY_MS } from "../src/lib/clock.ts";
import {
  prepareOperations,
  type OpenedRequest,
  type WriteOperation,
} from "../src/store/writer/operations.ts";
import { connect } from "../src/store/sqlite.ts";
import { startFolding, startWriter, type RequestSettlement } from "../src/store/store.ts";
import { ACCOUNTS, FILLED_UNTIL_MS, KEYS_PER_ACCOUNT } from "./filledStore.ts";
import type { Figures } from "./storeGrowth.ts";

const BATCH = 50;
const ROUNDS = 200;
const FOLD_MS = 4000;
/** So that the writer checks whether the hold can be paid. */
const BEYOND_EVERY_BALANCE = 2n ** 60n;

const newId = idMaker(systemClock, systemRandom);

/** The time of the writer's thread for inserting and settling a request, one by one and in batches. */
export function measureSettling(path: string): Figures {
  const connection = connect(path, "process");
  const run = prepareOperations(connection);
  const commit = (operations: readonly WriteOperation[]) => {
    connection.sqlite.run("BEGIN IMMEDIATE");
    for (const operation of operations) run(operation);
    connection.sqlite.run("COMMIT");
  };
  const took: Record<string, number[]> = { open: [], end: [], openOne: [], endOne: [], edge: [] };
  const time = (name: string, work: () => void): void => {
    const startedMs = performance.now();
    work();
    took[name]?.push((performance.now() - startedMs) * 1000);
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    const batch = Array.from({ length: BATCH }, request);
    time("open", () => commit(batch.map(openOf)));
    time("end", () => commit(batch.map(endOf)));
    const one = request();
    time("openOne", () => commit([openOf(one)]));
    time("endOne", () => commit([endOf(one)]));
    const last = { ...request(), heldTotal: BEYOND_EVERY_BALANCE };
    time("edge", () => commit([openOf(last)]));
    commit([endOf(last)]);
  }
  connection.sqlite.close();
  return {
    [`open in batches of ${BATCH}, us each`]: undisturbed(took["open"]) / BATCH,
    [`settle in batches of ${BATCH}, us each`]: undisturbed(took["end"]) / BATCH,
    "open by itself, us": undisturbed(took["openOne"]),
    "settle by itself, us": undisturbed(took["endOne"]),
    "open of an account whose money is all held, us": undisturbed(took["edge"]),
  };
}

/** The time of settling through the Writer, without and with the folding of the oldest half meanwhile. */
export async function measureFolding(path: string): Promise<Figures> {
  const writer = startWriter({ path, durability: "process" }, (message) => {
    throw new Error(message);
  });
  const settles = async (untilMs: number): Promise<number[]> => {
    const took: number[] = [];
    while (performance.now() < untilMs) {
      const one = request();
      await writer.write(openOf(one));
      const startedMs = performance.now();
      await writer.write(endOf(one));
      took.push(performance.now() - startedMs);
      await Bun.sleep(1);
    }
    return took;
  };
  await settles(performance.now() + 500);
  const alone = await settles(performance.now() + FOLD_MS);
  let folded = 0;
  const clock = { ...systemClock, epochMs: () => FILLED_UNTIL_MS };
  const store = { requests: { newestAt: clock.epochMs } };
  const folding = startFolding({ writer, store }, clock, 180 * DAY_MS, (count) => (folded = count));
  const beside = await settles(performance.now() + FOLD_MS);
  folding.stop();
  await Bun.sleep(100);
  await writer.close();
  return {
    "settle through the Writer, p50 ms": percentile(alone, 0.5),
    "settle through the Writer, p99 ms": percentile(alone, 0.99),
    "settle while folding, p50 ms": percentile(beside, 0.5),
    "settle while folding, p99 ms": percentile(beside, 0.99),
    "folded in that time, requests/s": folded / (FOLD_MS / 1000),
  };
}

function request(): OpenedRequest {
  const account = 1 + Math.floor(Math.random() * ACCOUNTS);
  return {
    publicId: newId("req"),
    at: Date.now(),
    accountId: account,
    keyId: (account - 1) * KEYS_PER_ACCOUNT + 1,
    endpoint: "chat",
    model: "gpt-5-mini",
    stream: true,
    priceInput: 25_000n,
    priceCachedInput: 2_500n,
    priceCacheWrite: 25_000n,
    priceOutput: 200_000n,
    hold: 500_000_000n,
    heldTotal: 500_000_000n,
  };
}

function openOf(opened: OpenedRequest): WriteOperation {
  return { kind: "openRequest", request: opened };
}

function endOf({ publicId }: OpenedRequest): WriteOperation {
  const end: RequestSettlement = {
    publicId,
    at: Date.now(),
    status: "done",
    provider: "openai",
    promptTokens: 1000,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    completionTokens: 300,
    cost: 85_000_000n,
    estimated: false,
    operatorCost: 40_000_000n,
    attempts: [{ provider: "openai", outcome: "ok", status: 200, durationMs: 900 }],
    durationMs: 900,
    firstByteMs: 300,
  };
  return { kind: "settleRequest", settlement: end };
}

/** The median without the slowest rounds, in which another process disturbed. */
function undisturbed(values: readonly number[] = []): number {
  return percentile(values, 0.25);
}

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}
