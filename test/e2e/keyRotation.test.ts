import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { answerOnlyPrices, wholeAnswer } from "../support/gateway/answerOnlyPrices.ts";
import {
  badKey,
  chat,
  expectRefusal,
  tooOften,
  unknownModel,
} from "../support/gateway/chatCalls.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";

const provider = startProvider(wholeAnswer);
/** In nano-roubles: an answer costs 0.01 roubles, and that is what is held for one. */
const TOKEN = 1_000_000;

interface KeyAnswer {
  readonly id: string;
  readonly key: string;
  readonly spent_rub: string;
}

let gateway: GatewayProcess;
beforeAll(async () => {
  gateway = await startGatewayProcess(
    answerOnlyPrices(`http://127.0.0.1:${provider.port}/v1`, TOKEN),
  );
}, startTimeoutMs);
afterEach(() => gateway.expectAuditPasses());
afterAll(async () => {
  await gateway.close();
  provider.stop();
});

const keys = async (...args: readonly string[]): Promise<KeyAnswer> => {
  const answer = (await gateway.cli.json("keys", ...args)) as KeyAnswer;
  await gateway.toldOfChanges();
  return answer;
};
const create = async (account: string, ...flags: readonly string[]): Promise<KeyAnswer> => {
  const made = await keys("create", "--account", account, ...flags);
  await gateway.cli.json("balance", "credit", account, "100");
  return made;
};

/** How many of this many requests at once, alternating between the keys, were served. */
async function served(count: number, ...by: readonly KeyAnswer[]): Promise<number> {
  const replies = await Promise.all(
    Array.from({ length: count }, (_, at) => chat(gateway, by[at % by.length])),
  );
  return replies.filter(({ status }) => status === 200).length;
}

describe("the running gateway obeys at its very next request", () => {
  test("a rotation: both keys work in the grace period, and together spend one budget to its end", async () => {
    const old = await create("shared", "--budget", "0.1");
    expect(await served(2, old)).toBe(2);
    const next = await keys("rotate", old.id);
    expect(await served(40, old, next)).toBe(8);
    for (const key of [old, next]) expect((await chat(gateway, key)).status).toBe(402);
    for (const { id } of [old, next])
      expect(await keys("show", id)).toMatchObject({ spent_rub: "0.1", budget_rub: "0.1" });
  });

  test("a budget that is set on one key of a line: it is that of both, under load too", async () => {
    const old = await create("raised", "--budget", "0.02");
    const next = await keys("rotate", old.id, "--grace", "7d");
    expect(await served(10, old, next)).toBe(2);
    await keys("set", old.id, "--budget", "0.05");
    const [first] = await Promise.all([
      served(200, old, next),
      keys("set", next.id, "--budget", "0.04"),
    ]);
    // Whichever came first, the lower budget or a request that the higher one paid.
    expect([2, 3]).toContain(first);
    expect((await keys("show", next.id)).spent_rub).toBe(`0.0${2 + first}`);
    expect(await served(10, old, next)).toBe(0);
    await keys("set", next.id, "--budget", "none");
    expect(await served(10, old, next)).toBe(10);
  });

  test("a rotation without grace, and a refund that both keys of the line have the use of", async () => {
    const old = await create("moved", "--budget", "0.01");
    const { id } = await chat(gateway, old);
    const next = await keys("rotate", old.id, "--grace", "0s");
    expectRefusal(await chat(gateway, old), badKey);
    expect((await chat(gateway, next)).status).toBe(402);
    await gateway.cli.json("balance", "refund", id);
    await gateway.toldOfChanges();
    expect((await chat(gateway, next)).status).toBe(200);
    expect((await chat(gateway, next)).status).toBe(402);
  });

  test("each setting of a key, and its removal", async () => {
    const key = await create("changed");
    const set = (...flags: readonly string[]) => keys("set", key.id, ...flags);
    const ask = () => chat(gateway, key);
    expect((await ask()).status).toBe(200);
    await set("--models", "other-*", "--label", "narrow");
    expectRefusal(await ask(), unknownModel);
    await set("--models", "none", "--rpm", "1");
    expect((await ask()).status).toBe(200);
    expectRefusal(await ask(), tooOften);
    await set("--rpm", "none", "--tpm", "1");
    expect((await ask()).status).toBe(200);
    expectRefusal(await ask(), tooOften);
    await set("--tpm", "0", "--expires", "1ms");
    expectRefusal(await ask(), badKey);
    await set("--expires", "none");
    expect((await ask()).status).toBe(200);
  });
});
