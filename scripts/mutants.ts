/**
 * Proves that the tests find bugs: applies each deliberate mutant of test/mutants/ to a copy of the tree. The
 * mutant's tests must fail there, and pass without it. `bun scripts/mutants.ts [NAME…]` runs all mutants, or those
 * whose names begin so. It ends with status 1 when one survives, no longer applies, or has tests that cannot be run here.
 */
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import {
  postgresMissing,
  SHARED_POSTGRES,
  startPostgres,
} from "../test/support/servers/postgres.ts";

const projectRoot = resolve(import.meta.dir, "..");
const mutantsFolder = join(projectRoot, "test", "mutants");
const testTimeoutMs = 5 * 60_000;
/** As in `scripts/ci.ts`: a busy machine must not fail a test that has nothing to do with the mutant. */
const oneTestTimeoutMs = 60_000;

/** A patch in the form of `git diff`, with lines before it: what it does, and `tests:` with the files to run. */
interface Mutant {
  readonly name: string;
  readonly title: string;
  readonly tests: readonly string[];
  readonly patch: string;
}

type Verdict =
  | "caught"
  | "survived"
  | "does not apply"
  | "does not run"
  | "its tests fail without it"
  | "its tests are skipped here";

/** What a run of tests needs. */
interface Stage {
  /** A copy of the tree. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** `skipped`: all that ran passed, but some were skipped, because a server they need is not installed. */
type Outcome = "passed" | "skipped" | "a test failed" | "broken";

/** Throws for an argument that is not the beginning of a mutant's name. */
async function main(names: readonly string[]): Promise<boolean> {
  const all = await readMutants();
  const unknown = names.find((wanted) => !all.some(({ name }) => name.startsWith(wanted)));
  if (unknown !== undefined) {
    const known = all.map(({ name }) => `\n  ${name}`).join("");
    throw new Error(`no mutant's name begins with "${unknown}". The mutants are:${known}`);
  }
  const mutants = all.filter(
    ({ name }) => names.length === 0 || names.some((wanted) => name.startsWith(wanted)),
  );
  const folder = await copyTree();
  // One for all: each test file would need seconds to start its own. It ends with this process.
  const postgres = postgresMissing === undefined ? await startPostgres() : undefined;
  const environment = postgres && { [SHARED_POSTGRES]: postgres.url() };
  const stage: Stage = { folder, environment: { ...process.env, ...environment } };
  let good = true;
  try {
    const outcomes = new Map<string, Outcome>();
    for (const mutant of mutants) {
      const startedMs = performance.now();
      const verdict = await judge(stage, mutant, outcomes);
      const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
      console.log(`${verdict.padEnd(10)} ${mutant.name} (${seconds} s): ${mutant.title}`);
      good &&= verdict === "caught";
    }
  } finally {
    await postgres?.close();
    await rm(folder, { recursive: true, force: true });
  }
  if (postgresMissing !== undefined)
    console.log(`NOT RUN: the tests with PostgreSQL: ${postgresMissing}`);
  console.log(good ? `all ${mutants.length} mutants are caught` : "NOT all mutants are caught");
  return good;
}

/** A failure counts only where the same tests pass on the tree as it is. */
async function judge(
  stage: Stage,
  mutant: Mutant,
  outcomes: Map<string, Outcome>,
): Promise<Verdict> {
  const tests = mutant.tests.join(" ");
  const without = outcomes.get(tests) ?? (await runTests(stage, mutant.tests));
  outcomes.set(tests, without);
  if (without === "a test failed" || without === "broken") return "its tests fail without it";
  if ((await apply(stage, mutant.patch, [])) !== 0) return "does not apply";
  const outcome = await runTests(stage, mutant.tests);
  if ((await apply(stage, mutant.patch, ["--reverse"])) !== 0) {
    throw new Error(`${mutant.name} cannot be reversed`);
  }
  switch (outcome) {
    case "passed":
      return "survived";
    case "skipped":
      return "its tests are skipped here";
    case "a test failed":
      return "caught";
    case "broken":
      return "does not run";
  }
}

async function runTests(
  { folder, environment }: Stage,
  tests: readonly string[],
): Promise<Outcome> {
  const timeout = `--timeout=${oneTestTimeoutMs}`;
  const child = Bun.spawn([process.execPath, "test", "--bail", timeout, ...tests], {
    cwd: folder,
    env: environment,
    stdio: ["ignore", "ignore", "pipe"],
    timeout: testTimeoutMs,
    detached: true,
  });
  const report = await child.stderr.text();
  const status = await child.exited;
  endGroup(child.pid);
  // Tests that need a server say so where it is missing.
  if (status === 0) return /^NOT RUN: /m.test(report) ? "skipped" : "passed";
  // A mutant that does not compile proves nothing.
  return /^\(fail\)/m.test(report) ? "a test failed" : "broken";
}

/** A failed test may leave child processes running: this ends the whole process group of the test run. */
function endGroup(leader: number): void {
  try {
    process.kill(-leader, "SIGKILL");
  } catch (error) {
    // The group has ended already.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

async function apply(
  { folder, environment }: Stage,
  patch: string,
  flags: readonly string[],
): Promise<number> {
  // Outside of a repository, or git would look for the files from the repository's root.
  const child = Bun.spawn(["git", "apply", ...flags, "-"], {
    cwd: folder,
    env: { ...environment, GIT_CEILING_DIRECTORIES: dirname(folder) },
    stdio: [new Blob([patch]), "ignore", "inherit"],
  });
  return await child.exited;
}

async function readMutants(): Promise<Mutant[]> {
  const files = (await readdir(mutantsFolder)).filter((name) => name.endsWith(".patch")).toSorted();
  return await Promise.all(
    files.map(async (file): Promise<Mutant> => {
      const text = await Bun.file(join(mutantsFolder, file)).text();
      const [title = ""] = text.split("\n", 1);
      const tests = /^tests: (.+)$/m.exec(text)?.[1]?.split(" ") ?? [];
      if (tests.length === 0) throw new Error(`${file} names no tests`);
      return { name: file.replace(/\.patch$/, ""), title, tests, patch: text };
    }),
  );
}

/** Copies every file of the project, also those that are not committed yet. */
async function copyTree(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), "tollgate-mutants-"));
  const listed = Bun.spawnSync(["git", "ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: projectRoot,
  });
  for (const file of listed.stdout.toString().split("\n")) {
    if (file === "" || !(await Bun.file(join(projectRoot, file)).exists())) continue;
    await mkdir(dirname(join(copy, file)), { recursive: true });
    await cp(join(projectRoot, file), join(copy, file));
  }
  await symlink(join(projectRoot, "node_modules"), join(copy, "node_modules"));
  return copy;
}

if (import.meta.main) {
  const isGood = await main(process.argv.slice(2)).catch((error: unknown) => {
    console.error(error instanceof Error ? `error: ${error.message}` : error);
    return false;
  });
  process.exit(isGood ? 0 : 1);
}
