/**
 * Sends valid, odd and broken answers of providers through the compiled gateway: `bun scripts/fuzzAnswers.ts [REQUESTS] [SEED]`;
 * 2000000 unless given, in rounds of 20000, each with its own gateway and seed.
 */
import { openAnswersSetup } from "../test/support/fuzzAnswers/setup.ts";
import { fuzzAnswers } from "../test/support/fuzzAnswers/answersFuzz.ts";
import { runInRounds } from "../test/support/runInRounds.ts";

if (import.meta.main)
  await runInRounds({
    requests: 2_000_000,
    roundMax: 20_000,
    open: openAnswersSetup,
    run: fuzzAnswers,
  });
