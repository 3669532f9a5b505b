import { drawnSeed } from "./seededRandom.ts";

interface Round {
  readonly seed: number;
  readonly requests: number;
}

/** What a round saw; `problems` is empty where all is well. */
interface RoundSeen {
  readonly problems: readonly string[];
}

/**
 * The long form of a test that sends requests: in rounds of so many at most, each with a bench and a seed of its own,
 * the first of which is given or drawn. Prints what each saw, and returns how many things went wrong.
 */
export async function runInRounds<Setup extends { close(): Promise<void> }>(
  requests: number,
  first: number | undefined,
  roundMax: number,
  open: (seed: number) => Promise<Setup>,
  work: (setup: Setup, round: Round) => Promise<RoundSeen>,
): Promise<number> {
  let bad = 0;
  let seed = first ?? drawnSeed();
  tell(JSON.stringify({ seed }));
  for (let sent = 0; sent < requests; sent += roundMax, seed += 1) {
    const setup = await open(seed);
    try {
      const round = { seed, requests: Math.min(roundMax, requests - sent) };
      const { problems, ...seen } = await work(setup, round);
      bad += problems.length;
      for (const problem of problems) tell(problem);
      tell(JSON.stringify({ ...seen, bad: problems.length }));
    } finally {
      await setup.close();
    }
  }
  return bad;
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`);
}
