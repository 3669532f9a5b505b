import { idMaker, systemRandom } from "../src/lib/random.ts";
import { systemClock, DAY_MS } from "../src/lib/clock.ts";
import { Blocks } from "../src/store/sqlite/writer/blocks.ts";
import { prepareApply } from "../src/store/sqlite/writer/apply.ts";
import { decodeBatch, encodeBatch } from "../src/store/writer/writerMessages.ts";
import { connect } from "../src/store/sqlite/sqlite.ts";
import { startFolding, startWriter } from "../src/store/open.ts";
import type { RequestRecord } from "../src/store/store.ts";
import {
  priceOf,
  requestRecord,
  runningRecord,
  reserve,
} from "../test/support/store/recordedRequest.ts";
import { ACCOUNTS, FILLED_UNTIL_MS, KEYS_PER_ACCOUNT } from "./filledStore.ts";
import type { Figures } from "./storeGrowth.ts";

const BATCH = 50;
const ROUNDS = 200;
const FOLD_MS = 4000;
const CHARGE = 85_000_000n;
/** What each account has reserved during a measurement. */
const RESERVED = 100_000_000_000_000n;

const newId = idMaker(systemClock, systemRandom);

/** The time of the writer's thread for the rows of requests, one by one and in batches. */
export function measureSettling(path: string): Figures {
  const connection = connect(path, "process");
  const apply = prepareApply(connection);
  const replica = new Blocks().of(0);
  const commit = (batch: string) =>
    connection.sqlite.transaction(() => apply(decodeBatch(batch), replica)).immediate();
  const encode = (records: readonly RequestRecord[]) =>
    encodeBatch(
      records.map((record) => ({ kind: "recordRequest", record })),
      [],
    );
  const reserves = Array.from({ length: ACCOUNTS }, (_, at) => {
    return { accountId: at + 1, reserved: String(RESERVED) };
  });
  commit(encodeBatch([], reserves));
  const took: Record<string, number[]> = { batch: [], one: [], late: [], lateEnd: [] };
  const time = (name: string, records: readonly RequestRecord[]): void => {
    const batch = encode(records);
    const startedMs = performance.now();
    commit(batch);
    took[name]?.push((performance.now() - startedMs) * 1000);
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    time("batch", Array.from({ length: BATCH }, ended));
    time("one", [ended()]);
    const late = ended();
    time("late", [runningRecord({ ...late, status: "running", charge: 0n, promptTokens: 0 })]);
    time("lateEnd", [{ ...late, mayHaveRow: true }]);
  }
  connection.sqlite.close();
  return {
    [`settle in batches of ${BATCH}, us each`]: undisturbed(took["batch"]) / BATCH,
    "settle by itself, us": undisturbed(took["one"]),
    "row of a running request, us": undisturbed(took["late"]),
    "settle a request with a row, us": undisturbed(took["lateEnd"]),
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
      const startedMs = performance.now();
      await writer.write({ kind: "recordRequest", record: ended() });
      took.push(performance.now() - startedMs);
      await Bun.sleep(1);
    }
    return took;
  };
  for (let account = 1; account <= ACCOUNTS; account += 1) await reserve(writer, account, RESERVED);
  await settles(performance.now() + 500);
  const alone = await settles(performance.now() + FOLD_MS);
  let folded = 0;
  const clock = { ...systemClock, epochMs: () => FILLED_UNTIL_MS };
  const now = async () => clock.epochMs();
  const store = { requests: { newestAt: now, lastEntryAt: now } };
  const folding = startFolding({ writer, store }, clock, 180 * DAY_MS, {
    onFolded: (count) => (folded = count),
    onClockDoubt: () => {},
  });
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

function ended(): RequestRecord {
  const accountId = 1 + Math.floor(Math.random() * ACCOUNTS);
  const keyId = (accountId - 1) * KEYS_PER_ACCOUNT + 1;
  return requestRecord({
    publicId: newId("req"),
    at: Date.now(),
    accountId,
    keyId,
    firstKeyId: keyId,
    model: "gpt-5-mini",
    provider: "openai",
    stream: true,
    price: priceOf({
      input: 85_000n,
      cachedInput: 2_500n,
      cacheWrite: 25_000n,
      output: 200_000n,
    }),
    hold: 500_000_000n,
    charge: CHARGE,
    promptTokens: 1000,
    operatorCost: 40_000_000n,
    attempts: [{ provider: "openai", outcome: "ok", status: 200, durationMs: 900 }],
    durationMs: 900,
    firstByteMs: 300,
  });
}

/** The median without the slowest rounds, in which another process disturbed. */
function undisturbed(values: readonly number[] = []): number {
  return percentile(values, 0.25);
}

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}
