import { drawnSeed } from "./seededRandom.ts";

interface Work<Setup> {
  /** The requests of a run, unless the first argument of the command says otherwise. */
  readonly requests: number;
  /** The requests of one round. */
  readonly roundMax: number;
  open(seed: number): Promise<Setup>;
  /** Sends the requests of a round. `problems` is empty if all is well. */
  run(
    setup: Setup,
    round: { readonly seed: number; readonly requests: number },
  ): Promise<{ readonly problems: readonly string[] }>;
}

/**
 * The long form of a test that sends requests, as a command: `SCRIPT [REQUESTS] [SEED]`. Each round has its own setup
 * and seed. Prints what each round counted. Ends the process, with status 1 if there were problems.
 */
export async function runInRounds<Setup extends { close(): Promise<void> }>(
  work: Work<Setup>,
): Promise<never> {
  const [requests = work.requests, first = drawnSeed()] = process.argv.slice(2).map(Number);
  let bad = 0;
  print(JSON.stringify({ seed: first }));
  for (let sent = 0, seed = first; sent < requests; sent += work.roundMax, seed += 1) {
    const setup = await work.open(seed);
    try {
      const round = { seed, requests: Math.min(work.roundMax, requests - sent) };
      const { problems, ...counts } = await work.run(setup, round);
      bad += problems.length;
      for (const problem of problems) print(problem);
      print(JSON.stringify({ ...counts, bad: problems.length }));
    } finally {
      await setup.close();
    }
  }
  process.exit(bad === 0 ? 0 : 1);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
