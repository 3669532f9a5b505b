import { afterAll, beforeAll, expect, test } from "bun:test";
import { GROWTH_BYTES_MAX } from "../support/fuzz/resources.ts";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { openAnswersSetup, type AnswersSetup } from "../support/fuzzAnswers/setup.ts";
import { fuzzAnswers } from "../support/fuzzAnswers/answersFuzz.ts";
import { amount, isLong } from "../support/sample.ts";

const seed = 1;
const requests = amount(1500, 6000);
const timeoutMs = 600_000;

let setup: AnswersSetup;
beforeAll(async () => {
  setup = await openAnswersSetup(seed);
}, startTimeoutMs);
afterAll(() => setup.close());

/** So rare that 1,500 answers may have none. */
const RARE = "missing";
/** Each must occur, or the run did not test it. */
const allOutcomes = {
  chat: ["backup", "refused", "unavailable", "whole"],
  "chat stream": ["backup", "broken", "refused", "unavailable", "whole"],
  responses: ["backup", "failed", "missing", "refused", "unavailable", "whole"],
  "responses stream": ["backup", "broken", "failed", "missing", "refused", "unavailable", "whole"],
};

// `bun scripts/fuzzAnswers.ts` runs two million.
test(
  `${requests} valid, odd and broken answers of providers each end as the contract demands, and leave nothing open`,
  async () => {
    const { problems, outcomes, health, growth, ...seen } = await fuzzAnswers(setup, {
      seed,
      requests,
    });
    process.stdout.write(`${JSON.stringify({ ...seen, outcomes, health, growth })}\n`);
    expect(problems).toEqual([]);
    for (const [form, expected] of Object.entries(allOutcomes)) {
      const found = Object.keys(outcomes[form] ?? {});
      const surely = (all: readonly string[]) => all.filter((one) => isLong || one !== RARE);
      expect([form, surely(found.toSorted())]).toEqual([form, surely(expected)]);
    }
    expect(seen.charged).toBeGreaterThan(requests / 4);
    expect(health.count).toBeGreaterThan(amount(10, 50));
    expect(growth.bytes).toBeLessThan(GROWTH_BYTES_MAX);
    expect(growth.files).toBeLessThanOrEqual(5);
  },
  timeoutMs,
);
