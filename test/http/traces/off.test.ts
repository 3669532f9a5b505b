import { expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import { ask, call } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";

const at = openOneModelBefore();

test("without [telemetry] no trace header reaches the provider, and none is made", async () => {
  at.provider.answer = usual;
  const headers = {
    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    tracestate: "congo=t61rcWkgMzE",
  };
  expect((await call(at.gateway, await at.gateway.key(), { body: ask(), headers })).status).toBe(
    200,
  );
  const { headers: sent } = await at.provider.request(0);
  expect(sent.filter(([name]) => name.startsWith("trace"))).toEqual([]);
  expect(at.gateway.app.gateway.tracing).toBeUndefined();
});
