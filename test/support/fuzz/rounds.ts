const seedMax = 2 ** 31;

/**
 * Runs a fuzz in rounds, each with a seed of its own: as many of its things, and from which seed, as the command's two
 * arguments say. Prints what each round saw, and ends the process with status 1 where anything was wrong.
 */
export async function fuzzInRounds(
  {
    all,
    roundMax,
    print,
  }: { readonly all: number; readonly roundMax: number; readonly print: (line: string) => void },
  round: (seed: number, count: number) => Promise<{ readonly problems: readonly string[] }>,
): Promise<never> {
  const [wanted = all, first = Math.floor(Math.random() * seedMax)] = process.argv
    .slice(2)
    .map(Number);
  print(JSON.stringify({ seed: first }));
  let bad = 0;
  for (let done = 0, seed = first; done < wanted; done += roundMax, seed += 1) {
    const { problems, ...seen } = await round(seed, Math.min(roundMax, wanted - done));
    bad += problems.length;
    for (const problem of problems) print(problem);
    print(JSON.stringify({ ...seen, bad: problems.length }));
  }
  process.exit(bad === 0 ? 0 : 1);
}
