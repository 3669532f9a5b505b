import { expect, test } from "bun:test";
import { everyForm, validAnswer, type FaultyAnswer } from "../../support/faults/faultAnswers.ts";
import { openFaultSetup } from "../../support/faults/faultSetup.ts";
import {
  expectEnd,
  expectUnavailable,
  expectUsual,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";
import { amount, sample } from "../../support/sample.ts";

/** Rows 13 and 14: a route with an open breaker is skipped, and one that answers in between is not. */
const setup = openFaultSetup();
const testTimeoutMs = 60_000;
const failing = refusal(500);

/** Fails every other time. */
function flapping(): FaultyAnswer {
  let count = 0;
  return (peer, request) => {
    count += 1;
    return count % 2 === 1 ? failing(peer, request) : validAnswer(peer, request);
  };
}

const requestCount = amount(100, 200);
const askedAtOnce = 4;
/** Each end waits for its commit, and a replica commits every 25 ms under load. Other work on the machine delays it too. */
const skippedWithinMs = 100;

for (const form of sample(everyForm, 2)) {
  const model = setup.model(13, { answer: flapping(), hasNext: true });
  test(
    `row 13: A fails every other request (${form}): all are served, and those that failed are sent twice`,
    async () => {
      let asked = 0;
      const context = async (): Promise<void> => {
        while (asked < requestCount) {
          asked += 1;
          const reply = await setup.ask(form, model);
          expectUsual(form, reply);
          expectEnd(await setup.record(reply, usualCharge), {
            status: "done",
            charge: usualCharge,
          });
        }
      };
      await Promise.all(Array.from({ length: askedAtOnce }, context));
      const [faulty, healthy] = setup.calls(model);
      expect(faulty + healthy).toBeLessThanOrEqual(requestCount * 1.5 + askedAtOnce);
    },
    testTimeoutMs,
  );

  const failuresToOpen = 5;
  const measured = 40;
  /** At once, and one more each second. */
  const lastResortMax = 15;
  const alone = setup.model(14, { answer: failing });
  test(`row 14: every route is skipped (${form}): 502 within ${skippedWithinMs} ms, and the provider is asked by few`, async () => {
    for (let count = 0; count < failuresToOpen; count += 1) {
      const reply = await setup.ask(form, alone);
      expectEnd(await setup.record(reply, 0n), { status: "failed", charge: 0n });
    }
    const times: number[] = [];
    for (let count = 0; count < measured; count += 1) {
      const startedMs = performance.now();
      const reply = await setup.ask(form, alone);
      const tookMs = performance.now() - startedMs;
      const record = await setup.record(reply, 0n);
      expectEnd(record, { status: "failed", charge: 0n });
      if (record.attempts.length > 0) continue;
      times.push(tookMs);
      expect(Number(reply.headers.get("retry-after"))).toBeWithin(1, 61);
      expectUnavailable(reply, Number(reply.headers.get("retry-after")));
    }
    expect(times.length).toBeGreaterThan(measured - lastResortMax);
    expect(setup.calls(alone)).toEqual([failuresToOpen + measured - times.length, 0]);
    // The quickest one, for other work on the machine makes any of them slower, and none faster.
    expect(Math.min(...times)).toBeLessThan(skippedWithinMs);
  });
}
