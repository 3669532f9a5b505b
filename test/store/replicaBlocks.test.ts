import { beforeEach, describe, expect, test } from "bun:test";
import { FileWriter } from "../../src/store/open.ts";
import type { RequestRecord } from "../../src/store/store.ts";
import type { ReserveTarget } from "../../src/store/writer/effects.ts";
import type { BatchOutcome } from "../../src/store/writer/outcome.ts";
import { encodeBatch, type WriteOperation } from "../../src/store/writer/writerMessages.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import { costOfEnded, ended, fund, running, type Owner } from "../support/store/storeFolder.ts";

const storeFolder = openStoreBefore({ audited: true });

let writer: FileWriter;
let alice: Owner;

beforeEach(async () => {
  alice = await fund(storeFolder.store, "alice", 100_000n);
  writer = new FileWriter({ path: storeFolder.path, durability: "process" });
  return () => writer.close();
});

interface Batch {
  readonly replica: number;
  readonly records?: readonly RequestRecord[];
  readonly reserved?: bigint;
  readonly budget?: bigint;
}

/** Runs the batches together. Returns the outcome of each, and whose money it wants. */
function run(...batches: readonly Batch[]) {
  const sent = batches.map(({ replica, records = [], reserved, budget }) => {
    const operations = records.map((record): WriteOperation => ({ kind: "recordRequest", record }));
    const chains = [{ firstKeyId: alice.keyId, reserved: String(budget) }];
    const target: ReserveTarget = {
      accountId: alice.accountId,
      reserved: String(reserved),
      ...(budget !== undefined && { chains }),
    };
    const batch = encodeBatch(operations, reserved === undefined ? [] : [target]);
    return { replica, batch, requestedAtMs: 0 };
  });
  return writer.run(sent).map(({ text, wanted }) => {
    const { replies, effects } = JSON.parse(text) as BatchOutcome;
    const { reserved, others } = effects.at(-1)?.accounts[0] ?? {};
    const [chain] = effects.at(-1)?.chains ?? [];
    return {
      failures: replies.flatMap((reply) => (reply.ok ? [] : reply.failure)),
      block: reserved,
      others,
      budget: chain && [chain.reserved, chain.others],
      wanted: [...wanted],
    };
  });
}

async function reserved(): Promise<bigint> {
  return (await storeFolder.store.accounts.findOrThrow("alice")).reserved;
}

describe("two replicas of one file", () => {
  test("each have a block of an account, and together no more than it has", async () => {
    expect(run({ replica: 1, reserved: 60_000n })).toMatchObject([
      { block: "60000", others: "0", wanted: [] },
    ]);
    expect(run({ replica: 2, reserved: 60_000n })).toMatchObject([
      { block: "40000", others: "60000", wanted: [alice.accountId] },
    ]);
    expect(await reserved()).toBe(100_000n);
    expect(run({ replica: 1, reserved: 10_000n }, { replica: 2, reserved: 60_000n })).toMatchObject(
      [
        { block: "10000", others: "40000" },
        { block: "60000", others: "10000" },
      ],
    );
    expect(await reserved()).toBe(70_000n);
  });

  test("each charge their own block", async () => {
    run({ replica: 1, reserved: costOfEnded }, { replica: 2, reserved: costOfEnded });
    expect(run({ replica: 1, records: [ended("req_1", alice)] })).toMatchObject([
      { failures: [], block: "0", others: String(costOfEnded) },
    ]);
    expect(run({ replica: 1, records: [ended("req_2", alice)] })).toMatchObject([
      { failures: ["insufficient"] },
    ]);
    expect(run({ replica: 2, records: [ended("req_3", alice)] })).toMatchObject([
      { failures: [], block: "0" },
    ]);
    expect(await reserved()).toBe(0n);
  });

  test("each have a block of a budget, and together no more than is left of it", async () => {
    const poor = { name: "bounded", budget: 50_000n };
    alice = await fund(storeFolder.store, "alice", 1000n, poor);
    expect(run({ replica: 1, reserved: 30_000n, budget: 30_000n })).toMatchObject([
      { budget: ["30000", "0"], wanted: [] },
    ]);
    expect(run({ replica: 2, reserved: 30_000n, budget: 30_000n })).toMatchObject([
      { budget: ["20000", "30000"], wanted: [alice.accountId] },
    ]);
    writer.end(1);
    expect(run({ replica: 2, reserved: 50_000n, budget: 50_000n })).toMatchObject([
      { budget: ["50000", "0"], wanted: [] },
    ]);
  });

  test("a refused operation of one changes nothing of the other", async () => {
    const [refused, committed] = run(
      { replica: 1, reserved: 5000n, records: [ended("req_1", alice)] },
      { replica: 2, reserved: 20_000n },
    );
    expect(refused).toMatchObject({ failures: ["insufficient"], block: "5000" });
    expect(committed).toMatchObject({ failures: [], block: "20000", others: "5000" });
    expect(await reserved()).toBe(25_000n);
  });

  test("the end of one releases its block and interrupts its requests, and no others", async () => {
    run(
      { replica: 1, reserved: 30_000n, records: [running("req_1", alice)] },
      { replica: 2, reserved: 20_000n, records: [running("req_2", alice)] },
    );
    expect(writer.end(1)).toEqual({ count: 1, reserved: 30_000n });
    expect(await reserved()).toBe(20_000n);
    const statusOf = async (id: string) => (await storeFolder.store.requests.find(id))?.status;
    expect([await statusOf("req_1"), await statusOf("req_2")]).toEqual(["interrupted", "running"]);
    expect(run({ replica: 2, reserved: 100_000n })).toMatchObject([
      { block: "100000", others: "0", wanted: [] },
    ]);
    expect(writer.end(2)).toEqual({ count: 1, reserved: 100_000n });
    expect(await reserved()).toBe(0n);
  });
});
