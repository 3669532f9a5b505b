/**
 * Has providers answer soundly, oddly and brokenly behind the compiled gateway: `bun scripts/fuzzAnswers.ts [ANSWERS] [SEED]`;
 * 2000000 unless given, in rounds of 20000, each with a gateway and a seed of its own.
 */
import { openAnswersSetup } from "../test/support/fuzzAnswers/setup.ts";
import { fuzzAnswers } from "../test/support/fuzzAnswers/answersFuzz.ts";
import { runInRounds } from "../test/support/runInRounds.ts";

const answersDefault = 2_000_000;
const roundMax = 20_000;

if (import.meta.main) {
  const [answers = answersDefault, first] = process.argv.slice(2).map(Number);
  const bad = await runInRounds(answers, first, roundMax, openAnswersSetup, fuzzAnswers);
  process.exit(bad === 0 ? 0 : 1);
}
