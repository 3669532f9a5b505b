/**
 * Has providers answer soundly, oddly and brokenly behind the compiled gateway: `bun scripts/fuzzAnswers.ts [ANSWERS] [SEED]`;
 * 2000000 unless given, in rounds of 20000, each with a gateway and a seed of its own.
 */
import { openAnswersBench } from "../test/support/fuzzAnswers/answersBench.ts";
import { fuzzAnswers } from "../test/support/fuzzAnswers/answersFuzz.ts";
import { fuzzInRounds } from "../test/support/fuzz/rounds.ts";

const answersDefault = 2_000_000;
const roundMax = 20_000;

if (import.meta.main) {
  const rounds = { all: answersDefault, roundMax, print: console.log };
  await fuzzInRounds(rounds, async (seed, requests) => {
    const bench = await openAnswersBench(seed);
    try {
      return await fuzzAnswers(bench, { seed, requests });
    } finally {
      await bench.stop();
    }
  });
}
