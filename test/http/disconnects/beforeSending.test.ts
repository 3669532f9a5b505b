import { afterAll, expect, test } from "bun:test";
import { openSilentPort } from "../../support/provider/silentPort.ts";
import { ask } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const hole = await openSilentPort();
afterAll(() => hole.stop());

const started = 100_000_000_000n;
const at = openBefore(["local"], ({ local }) => ({
  providers: { local, again: local, hole: `http://127.0.0.1:${hole.port}/v1` },
  models: [
    { id: "unreached", routes: [{ provider: "hole" }] },
    { id: "second-unreached", routes: [{ provider: "local" }, { provider: "hole" }] },
    {
      id: "three",
      routes: [{ provider: "local" }, { provider: "again" }, { provider: "hole" }],
    },
  ],
  sections: { billing: { disconnect_grace: "120ms" } },
}));

test.each([
  ["a stream", "unreached", true, 1],
  ["a stream, after a provider that failed", "second-unreached", true, 2],
  ["a JSON answer beyond the limit of answers read after a disconnect", "unreached", false, 1],
])(
  "a client that disconnects while the connection is being made pays nothing: %s",
  async (_, model, stream, attemptCount) => {
    const { gateway, providers } = at;
    const { inFlight, leftAnswers } = gateway.app.gateway;
    providers.local.answer = refusal(503);
    const key = await gateway.key();
    const client = await connectRaw(gateway.port);
    client.send(chatBytes(key.key, JSON.stringify(ask({ model, stream }))));
    await until("its last route is tried", () => {
      const [exchange] = inFlight.exchanges;
      return exchange !== undefined && providers.local.requests.length === attemptCount - 1;
    });
    leftAnswers.count = 1024;
    client.reset();
    const [record] = await gateway.records(key, 1);
    leftAnswers.count = 0;
    expect(record).toMatchObject({
      status: "cancelled",
      charge: 0n,
      promptTokens: 0,
      attemptCount,
    });
    expect(await gateway.balance(key)).toBe(started);
  },
);

test("a JSON client that disconnects in the wait after failed providers pays nothing", async () => {
  const { gateway, providers } = at;
  const { retryBudget, leftAnswers } = gateway.app.gateway;
  providers.local.answer = refusal(500);
  const key = await gateway.key();
  const client = await connectRaw(gateway.port);
  const take = retryBudget.take.bind(retryBudget);
  // It is asked right before the pause. No answer is read on without its client any more.
  retryBudget.take = (exchangesInFlight) => {
    leftAnswers.count = 1024;
    client.reset();
    return take(exchangesInFlight);
  };
  client.send(chatBytes(key.key, JSON.stringify(ask({ model: "three" }))));
  const [record] = await gateway.records(key, 1);
  retryBudget.take = take;
  leftAnswers.count = 0;
  expect(record).toMatchObject({ status: "cancelled", charge: 0n, attemptCount: 2 });
  expect(providers.local.requests).toHaveLength(2);
});
