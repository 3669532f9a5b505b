import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Hold } from "../../src/billing/hold.ts";
import { Holds } from "../../src/billing/holds.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { systemRandom } from "../../src/lib/random.ts";
import { WriteError } from "../../src/store/store.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import type { TestDatabase } from "../support/servers/postgres.ts";
import { Books, openReplica, type Replica } from "../support/store/replica.ts";
import { replicaDatabase } from "../support/store/replicaDatabase.ts";
import { costOfEnded, ended, unbilled, type Owner } from "../support/store/storeFolder.ts";
import { until } from "../support/until.ts";

describePostgres("a hold of a lease that another replica has ended", () => {
  let database: TestDatabase;
  let books: Books;
  beforeEach(async () => {
    database = await replicaDatabase();
    books = new Books(database.url);
  });
  afterEach(async () => {
    const problems = await books.problems();
    await books[Symbol.asyncDispose]();
    await database.drop();
    expect(problems).toEqual([]);
  });

  const open = async (): Promise<{ replica: Replica; holds: Holds }> => {
    const replica = await openReplica(database.url, { onLost: () => holds.reset() });
    const holds: Holds = new Holds({
      writer: replica.writer,
      clock: systemClock,
      random: systemRandom,
      isAlone: false,
      refuse() {
        if (!replica.lease.isValid) throw new WriteError("unreachable", "no lease");
      },
    });
    return { replica, holds };
  };
  const held = async (holds: Holds, { accountId, keyId }: Owner): Promise<Hold> => {
    const result = await holds.takeOrWait(
      { waitMs: 1000, signal: { aborted: false } },
      { accountId, keyId, requestId: "id" },
      { least: costOfEnded, most: costOfEnded, step: 1n },
    );
    if (!result.ok) throw new Error(result.reason);
    return result.hold;
  };
  /** Another one ends the replica, which finds out and joins again. */
  const loseLease = async ({ lease, told }: Replica): Promise<void> => {
    await books.sql`UPDATE replicas SET seen_at = seen_at - 16000 WHERE id = ${lease.id}`;
    await using _other = await openReplica(database.url);
    await until("it joins again", () => told.includes("joined"));
  };

  test("pays nothing, also when the next lease could pay", async () => {
    const { replica, holds } = await open();
    await using _closed = replica;
    const owner = await books.open("alice", 10n * costOfEnded);
    const end = (hold: Hold, ...record: Parameters<typeof ended>) =>
      replica.writer.writeWithin({ kind: "recordRequest", record: ended(...record) }, [hold]);
    const old = await held(holds, owner);
    await loseLease(replica);
    const hold = await held(holds, owner);
    const failure = await end(old, "req_old", owner).catch((error: unknown) => error);
    expect(failure).toMatchObject({ failure: "fenced" });
    await end(hold, "req_new", owner);
    // That it failed is recorded.
    await end(old, "req_old", owner, unbilled);
    expect(await books.statuses()).toEqual({ req_new: "done", req_old: "failed" });
    expect(await books.account(owner.accountId)).toMatchObject({ balance: 9n * costOfEnded });
    expect(holds.total()).toBe(0n);
  });
});
