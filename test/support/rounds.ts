const seedMax = 2 ** 31;

/** What a round saw; `problems` is empty where all is well. */
interface RoundSeen {
  readonly problems: readonly string[];
}

/**
 * The long form of a test that sends requests: in rounds of so many at most, each with a seed of its own, the first of
 * which is given or drawn. Prints what each saw, and returns how many things went wrong.
 */
export async function inRounds(
  requests: number,
  first: number | undefined,
  roundMax: number,
  play: (round: { readonly seed: number; readonly requests: number }) => Promise<RoundSeen>,
): Promise<number> {
  let bad = 0;
  let seed = first ?? Math.floor(Math.random() * seedMax);
  tell(JSON.stringify({ seed }));
  for (let sent = 0; sent < requests; sent += roundMax, seed += 1) {
    const { problems, ...seen } = await play({
      seed,
      requests: Math.min(roundMax, requests - sent),
    });
    bad += problems.length;
    for (const problem of problems) tell(problem);
    tell(JSON.stringify({ ...seen, bad: problems.length }));
  }
  return bad;
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`);
}
