import { afterAll, beforeAll, expect, test } from "bun:test";
import { GROWTH_BYTES_MAX } from "../support/fuzz/resources.ts";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { openAnswersSetup, type AnswersSetup } from "../support/fuzzAnswers/setup.ts";
import { fuzzAnswers } from "../support/fuzzAnswers/answersFuzz.ts";

const seed = 1;
const requests = 6000;
const timeoutMs = 600_000;

let setup: AnswersSetup;
beforeAll(async () => {
  setup = await openAnswersSetup(seed);
}, startTimeoutMs);
afterAll(() => setup.close());

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
    const outcomesSeen = Object.entries(outcomes).map(([form, counts]) => [
      form,
      Object.keys(counts).toSorted(),
    ]);
    expect(Object.fromEntries(outcomesSeen)).toEqual(allOutcomes);
    expect(seen.charged).toBeGreaterThan(requests / 4);
    expect(health.count).toBeGreaterThan(50);
    expect(growth.bytes).toBeLessThan(GROWTH_BYTES_MAX);
    expect(growth.files).toBeLessThanOrEqual(5);
  },
  timeoutMs,
);
