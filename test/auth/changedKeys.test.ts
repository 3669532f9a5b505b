import { afterEach, beforeEach, expect, test } from "bun:test";
import { issueKey } from "../../src/auth/apiKey.ts";
import { authenticate, KnownKeys } from "../../src/auth/knownKeys.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { systemRandom } from "../../src/lib/random.ts";
import { openReplica, openServerStore } from "../../src/store/open.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import type { TestDatabase } from "../support/servers/postgres.ts";
import { replicaDatabase } from "../support/store/replicaDatabase.ts";
import { actor } from "../support/store/storeFolder.ts";

/** What is promised, and some time for a busy machine. */
const WITHIN_MS = 1500;
const { key, hash, prefix } = issueKey(systemRandom);

const ignore = (): void => {};
const listener = {
  onChanged: ignore,
  onWanted: ignore,
  onError: ignore,
  onLost: ignore,
  onJoined: ignore,
  onOutdated: ignore,
  onClockSkew: ignore,
  onEnded: ignore,
  onLocked: ignore,
  onCommit: ignore,
  onUnusableFile: ignore,
  onFatal: ignore,
};

describePostgres("a key that a replica knows", () => {
  let database: TestDatabase;
  let replica: Awaited<ReturnType<typeof openReplica>>;
  let command: Awaited<ReturnType<typeof openServerStore>>;
  beforeEach(async () => {
    database = await replicaDatabase();
    const address = { url: database.url, shownUrl: "postgres://server/books" };
    replica = await openReplica(address, {
      name: "one",
      version: "1",
      clock: systemClock,
      listener,
    });
    command = await openServerStore(address);
    await command.admin.createKey(actor, "alice", {
      publicId: "key_1",
      hash,
      prefix,
      createdAt: actor.at,
      budget: null,
    });
  });
  afterEach(async () => {
    await command.close();
    await replica.close();
    await database.drop();
  });

  test.each([
    ["its end", () => command.admin.revokeKey(actor, "key_1")],
    ["the end of its account", () => command.admin.setDisabled(actor, "alice", true)],
  ])("is refused within a second after %s by another process", async (_, change) => {
    const known = new KnownKeys({ keys: replica.store.keys, changes: replica.changes });
    const isUsable = async () => (await authenticate(key, known, actor.at)) !== undefined;
    expect(await isUsable()).toBe(true);
    await change();
    const changedMs = performance.now();
    while ((await isUsable()) && performance.now() < changedMs + WITHIN_MS) await Bun.sleep(5);
    expect(await isUsable()).toBe(false);
  });
});
