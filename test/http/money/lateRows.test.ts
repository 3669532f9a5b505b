import { afterEach, describe, expect, spyOn, test } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { beginChat, type SteppedChat } from "../../support/gateway/steppedChat.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { piece, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { fillStore } from "../../support/store/fullStore.ts";
import { until, untilAsync } from "../../support/until.ts";
import { testSqlite } from "../../support/testedEngines.ts";

const at = openOneModelBefore();
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
/** A request that is open for so long gets its row. */
const LATE_MS = 1000;
const theEnd = [...[stopEvent, usageEvent, doneEvent].map(piece), streamEnd];

const rowsOf = async ({ account }: TestKey) =>
  (await at.gateway.store.requests.list({ account }, { limit: 9 })).rows;

let makeRoom = (): void => {};
afterEach(() => {
  makeRoom();
  makeRoom = () => {};
});

/** What the provider sends, until the client has the whole answer. */
async function end({ provide, peer, client }: SteppedChat, stream: boolean): Promise<void> {
  if (stream) await provide(streamHead, piece(helloEvent), ...theEnd);
  else await answered()(peer, await at.provider.request(0));
  if (stream) await client.seen("[DONE]");
  else expect((await client.response()).status).toBe(200);
  client.fin();
}

describe.each([
  ["JSON", false],
  ["a stream", true],
])("a request for %s", (_, stream) => {
  test("has no row while it runs for less than a second, and one row afterwards", async () => {
    const begunMs = performance.now();
    const stepped = await beginChat(at, { stream });
    const { writer } = at.gateway.app.gateway;
    await until("its money is reserved", () => writer.queued === 0);
    const rows = await rowsOf(stepped.key);
    // Else this machine was too slow to tell.
    if (performance.now() - begunMs < LATE_MS) expect(rows).toEqual([]);
    await end(stepped, stream);
    expect(await rowsOf(stepped.key)).toMatchObject([{ status: "done", charge: cost }]);
  });

  test("has a running row after a second, which becomes its record", async () => {
    const begunMs = performance.now();
    const stepped = await beginChat(at, { stream });
    await untilAsync("it has a row", async () => (await rowsOf(stepped.key)).length > 0);
    expect(performance.now() - begunMs).toBeGreaterThanOrEqual(LATE_MS - 1);
    const [running] = await rowsOf(stepped.key);
    expect(running).toMatchObject({ status: "running", charge: 0n, provider: null, stream });
    expect(running?.hold).toBeGreaterThan(0n);
    expect(await at.gateway.balance(stepped.key)).toBe(100_000_000_000n);
    await end(stepped, stream);
    const { id, hold, at: begunAt } = running ?? {};
    expect(await rowsOf(stepped.key)).toMatchObject([
      { id, hold, at: begunAt, status: "done", charge: cost, provider: "local" },
    ]);
    expect(await at.gateway.balance(stepped.key)).toBe(100_000_000_000n - cost);
    const { ledger, accounts } = at.gateway.store;
    const { id: accountId } = await accounts.findOrThrow(stepped.key.account);
    const history = await ledger.history(accountId, 9);
    expect(history.filter(({ kind }) => kind === "charge")).toHaveLength(1);
  });

  testSqlite(
    "whose row could not be written for want of room is recorded once at its end",
    async () => {
      const stepped = await beginChat(at, { stream });
      const { writer } = at.gateway.app.gateway;
      await until("its money is reserved", () => writer.queued === 0);
      makeRoom = fillStore(at.gateway.path);
      const written = spyOn(writer, "write");
      const isRow = ([{ kind }]: Parameters<typeof writer.write>): boolean =>
        kind === "recordRequest";
      await until("its row is due", () => written.mock.calls.some(isRow));
      await until("it was refused", () => writer.queued === 0);
      written.mockRestore();
      expect(await rowsOf(stepped.key)).toEqual([]);
      makeRoom();
      makeRoom = () => {};
      await end(stepped, stream);
      expect(await at.gateway.records(stepped.key, 1)).toMatchObject([
        { status: "done", charge: cost },
      ]);
      expect(await at.gateway.balance(stepped.key)).toBe(100_000_000_000n - cost);
    },
  );
});

test("requests that are open for a second get their rows, and short ones beside them none", async () => {
  const first = await beginChat(at, {});
  at.provider.answer = answered();
  const other = await at.gateway.key();
  while ((await rowsOf(first.key)).length === 0) {
    expect((await chat(at.gateway, other)).status).toBe(200);
    expect((await rowsOf(other))[0]?.status).toBe("done");
  }
  expect(await rowsOf(first.key)).toMatchObject([{ status: "running" }]);
  await answered()(first.peer, await at.provider.request(0));
  expect((await first.client.response()).status).toBe(200);
  first.client.fin();
});
