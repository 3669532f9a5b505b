import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { answered } from "../support/provider/chatAnswers.ts";
import { ask, chat } from "../support/gateway/chatCalls.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";

/** The highest possible prices. A completion token costs one rouble. */
const prices = { rub_input_per_1m: 999_999_999, rub_output_per_1m: 1_000_000_000 };
const usage = { prompt_tokens: 7, completion_tokens: 123_456_789 };
/** 7 x 999,999,999 and 123,456,789 x 1,000,000,000 nano-roubles. */
const cost = "123456795.999999993";
const credits = ["9007199.254740993", "1234567890.123456789"];
const debit = "0.000000001";
/** The sum of the credits, less the debit, less the charge; a double knows none of these to the nano-rouble. */
const before = "1243575089.378197781";
const after = "1120118293.378197788";

const provider = startProvider(answered({ usage }));
let gateway: GatewayProcess;
let key: string;
let requestId: string;
beforeAll(async () => {
  gateway = await startGatewayProcess({
    providers: { local: `http://127.0.0.1:${provider.port}/v1` },
    models: [
      {
        id: "small",
        routes: [{ provider: "local" }],
        settings: {
          ...prices,
          rub_cached_input_per_1m: 1,
          rub_cache_write_per_1m: 1,
          max_output_tokens: 100_000_000,
        },
      },
    ],
  });
  key = await gateway.key("alice", "0");
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  provider.stop();
});

/** What is held with this bound, by the digits: the bytes of the body bound the prompt. */
function holdOf(maxTokens: number): string {
  const body = JSON.stringify(ask({ max_tokens: maxTokens }));
  const promptTokens = Buffer.byteLength(body) + 16 + 256;
  const digits = String(
    BigInt(promptTokens) * BigInt(prices.rub_input_per_1m) +
      BigInt(maxTokens) * BigInt(prices.rub_output_per_1m),
  );
  return `${digits.slice(0, -9)}.${digits.slice(-9).replace(/0+$/, "")}`;
}

const json = (...args: readonly string[]) => gateway.cli.json(...args);

describe("money beyond nine million roubles is exact to the nano-rouble", () => {
  test("in what credits and debits say", async () => {
    expect(await json("balance", "credit", "alice", credits[0] ?? "")).toMatchObject({
      amount_rub: credits[0],
      balance_rub: credits[0],
    });
    expect(await json("balance", "credit", "alice", credits[1] ?? "")).toMatchObject({
      amount_rub: credits[1],
      balance_rub: "1243575089.378197782",
    });
    expect(await json("balance", "debit", "alice", debit)).toMatchObject({ balance_rub: before });
  });

  test("in a charge, and in the client's cost header", async () => {
    const reply = await chat(gateway, { key });
    expect([reply.status, reply.headers.get("x-tollgate-cost-rub")]).toEqual([200, cost]);
    requestId = reply.id;
  });

  test("in a refusal", async () => {
    const reply = await chat(gateway, { key }, { max_tokens: 2_000_000_000 });
    expect([reply.status, reply.body]).toMatchObject([
      402,
      { error: { required_rub: holdOf(2_000_000_000), available_rub: after } },
    ]);
  });

  test("in balances, accounts and the history", async () => {
    await gateway.unreserved("alice");
    const money = { balance_rub: after, held_rub: "0", available_rub: after };
    expect(await json("balance", "show", "alice")).toMatchObject(money);
    expect(await json("accounts", "show", "alice")).toMatchObject(money);
    expect(await json("accounts", "list")).toMatchObject([money]);
    expect(await json("balance", "history", "alice")).toMatchObject([
      { kind: "charge", amount_rub: `-${cost}`, balance_rub: after },
      { kind: "debit", amount_rub: `-${debit}`, balance_rub: before },
      { kind: "credit", amount_rub: credits[1], balance_rub: "1243575089.378197782" },
      { kind: "credit", amount_rub: credits[0], balance_rub: credits[0] },
    ]);
  });

  test.each(["day", "model", "provider", "account", "key"])("in the usage by %s", async (by) => {
    expect(await json("usage", "--by", by)).toMatchObject([{ cost_rub: cost }]);
    const { stdout } = await gateway.cli.run("usage", "--by", by, "--csv");
    expect(stdout).toContain(`,${cost},`);
  });

  test("in the records of requests", async () => {
    expect(await json("requests")).toMatchObject([{ cost_rub: cost, write_off_rub: "0" }]);
    expect(await json("requests", "show", requestId)).toMatchObject({ cost_rub: cost });
  });

  test.each([
    [["balance", "show", "alice"], after],
    [["balance", "history", "alice"], after],
    [["accounts", "list"], after],
    [["usage"], cost],
    [["requests"], cost],
  ])("in the table of %j", async (args, amount) => {
    expect((await gateway.cli.run(...args)).stdout).toContain(amount);
  });

  test("in a reserve that a crash leaves, in a debit of all there is, and for the audit", async () => {
    provider.answer = () => {};
    void chat(gateway, { key }, { max_tokens: 1_000_000_000 }).catch(() => {});
    await provider.request(1);
    let shown: unknown;
    do shown = await json("balance", "show", "alice");
    while ((shown as { held_rub: string }).held_rub === "0");
    // After a pause no more is reserved than the request holds.
    expect(shown).toMatchObject({ balance_rub: after, held_rub: holdOf(1_000_000_000) });
    await gateway.kill();
    await gateway.start();
    await gateway.unreserved("alice");
    expect(await json("balance", "show", "alice")).toMatchObject({ available_rub: after });
    expect(await json("audit")).toMatchObject({ ok: true, problems: [] });
    expect(await json("balance", "debit", "alice", after)).toMatchObject({ balance_rub: "0" });
  });
});
