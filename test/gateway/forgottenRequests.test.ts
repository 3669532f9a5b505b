import { expect, test } from "bun:test";
import { authenticate } from "../../src/auth/authenticate.ts";
import { admit, findModel } from "../../src/gateway/admit.ts";
import { endForgotten } from "../../src/gateway/forgotten.ts";
import type { Visit } from "../../src/gateway/gateway.ts";
import { rouble, type TestKey } from "../support/testApp.ts";
import { openOneModelBefore } from "../support/gatewayUnderTest.ts";
import { until } from "../support/until.ts";

const minuteMs = 60_000;
const opened = openOneModelBefore({}, { total_timeout: "10m" });

/** A request as the path of a chat admits it. */
async function admitted(key: TestKey) {
  const { app } = opened.gateway;
  const { gateway } = app;
  const caller = authenticate(key.key, (hash) => gateway.store.keys.findByHash(hash), Date.now());
  if (caller === undefined) throw new Error("the key is not known");
  const limits = { requestsPerMinute: 0, tokensPerMinute: 0, concurrentRequests: 0 };
  const admission = app.limiter.admit(caller.id, limits);
  if (!admission.ok) throw new Error("the key is limited");
  const visit: Visit = {
    requestId: app.newId("req"),
    caller,
    passage: admission.passage,
    signal: new AbortController().signal,
    note() {},
    fail() {},
    over() {},
  };
  return admit(gateway, visit, findModel(gateway, visit, "small"), {
    endpoint: "chat",
    stream: false,
    prompt: { bodyBytes: 100, messageCount: 1, unbounded: false },
    promptEstimate: 10,
    outputTokensBound: 10,
    choiceCount: 1,
  });
}

test("a request that nobody ends gives its money back, uncharged, and the operator hears of it", async () => {
  const { gateway } = opened;
  const key = gateway.key({ balance: rouble });
  await admitted(key);
  expect(gateway.app.gateway.holds.total()).toBeGreaterThan(0n);

  gateway.clock.advance(30 * minuteMs);
  endForgotten(gateway.app.gateway);
  endForgotten(gateway.app.gateway);
  expect(gateway.app.gateway.holds.total()).toBeGreaterThan(0n);

  gateway.clock.advance(minuteMs);
  endForgotten(gateway.app.gateway);
  // The first look after a standstill leaves the requests to their own time limits.
  expect(gateway.app.gateway.holds.total()).toBeGreaterThan(0n);
  endForgotten(gateway.app.gateway);
  await until("the hold is released", () => gateway.app.gateway.holds.total() === 0n);

  const [record] = await gateway.records(key, 1);
  expect(record).toMatchObject({ status: "failed", charge: 0n });
  expect(gateway.balance(key)).toBe(rouble);
  expect(gateway.log).toContainEqual(
    expect.objectContaining({
      level: "error",
      msg: "a request was never ended: its hold is released and nothing is charged",
      request_id: record?.id,
    }),
  );
});

test("one that was ended is not looked for", async () => {
  const { gateway } = opened;
  const key = gateway.key({ balance: rouble });
  const { meter } = await admitted(key);
  await meter.finish({ status: "done" });
  const lines = gateway.log.length;
  gateway.clock.advance(32 * minuteMs);
  endForgotten(gateway.app.gateway);
  endForgotten(gateway.app.gateway);
  expect(gateway.log.slice(lines)).toEqual([]);
});
