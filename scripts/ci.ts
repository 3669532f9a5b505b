/** All that must hold before a change is taken: checks, the executable, the tests. Its last line is the verdict. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { screenshotsFolder } from "../test/support/browser/screenshots.ts";
import { prometheusMissing } from "../test/support/monitoring/prometheusServer.ts";
import {
  postgresMissing,
  SHARED_POSTGRES,
  startPostgres,
} from "../test/support/servers/postgres.ts";
import { redisMissing } from "../test/support/servers/redis.ts";
import { reverseProxies } from "../test/support/servers/reverseProxies.ts";
import { isLong } from "../test/support/sample.ts";
import { runChecks } from "./check.ts";

const projectRoot = resolve(import.meta.dir, "..");
const installTimeoutMs = 5 * 60_000;
const buildTimeoutMs = 5 * 60_000;
const testTimeoutMs = 60 * 60_000;
/** For one test. Waits have their own, more specific time-outs; this one only ends a test that hangs. */
const oneTestTimeoutMs = 60_000;
/** How many test files run at once. Most of them wait half of their time, so these keep two cores busy. */
const workers = 5;
/** How long each file took, in milliseconds: the longest begin first. `bun run ci --update-timings` writes it anew. */
const timings = "test/timings.json";
/**
 * These run again with gateways on PostgreSQL and Redis, beside the others. What computes a charge or an estimate is the
 * same on both engines, and runs there only in the long form. docs/contribute/index.md has the whole.
 */
const onServers = isLong
  ? [
      "test/http/money",
      "test/http/server/rateLimits.test.ts",
      "test/http/server/rotatedKeys.test.ts",
    ]
  : [
      ...[
        "chargeBeforeEnd",
        "foreignChanges",
        "holds",
        "lateRows",
        "lockedDatabase",
        "reserve",
        "sharedMoney",
        "vouchers",
        "waitingRequests",
      ].map((name) => `test/http/money/${name}.test.ts`),
      "test/http/server/rateLimits.test.ts",
      "test/http/server/rotatedKeys.test.ts",
    ];
const servers = { TOLLGATE_TEST_ENGINE: "postgres", TOLLGATE_TEST_LIMITS: "redis" };
/** The longest part of a failed test's message that is shown, in characters. */
const messageShownMax = 400;
const xmlEntities: Readonly<Record<string, string>> = {
  amp: "&",
  apos: "'",
  gt: ">",
  lt: "<",
  quot: '"',
};
const areServersThere = postgresMissing === undefined && redisMissing === undefined;

interface Tally {
  readonly passed: number;
  readonly failed: number;
}

interface TestTally extends Tally {
  /** One line for each failed test. */
  readonly failures: readonly string[];
}

/** Runs everything, also after a failure: the tests tell more about a broken build. */
async function ci(testArguments: readonly string[]): Promise<Tally> {
  await rm(screenshotsFolder, { recursive: true, force: true });
  // The longest tests wait more than they compute, so the checks run beside them.
  const checks = runChecks();
  const [built] = await Promise.all([run(["scripts/build.ts"], buildTimeoutMs), installPrograms()]);
  const tests = await runTests(testArguments);
  const broken = (await checks).filter((result) => !result.ok).map((result) => result.name);
  if (built !== 0) broken.push("build");
  await tellScreenshots();
  tellNotRun();
  // At the end, because the output above is long.
  for (const name of [...broken, ...tests.failures]) console.log(`FAILED ${name}`);
  return { passed: tests.passed, failed: tests.failed + broken.length };
}

/** Without these programs their tests are skipped, and say so: they are large, and not ours. */
async function installPrograms(): Promise<void> {
  if ((await run(["run", "programs"], installTimeoutMs)) !== 0)
    console.log("the programs of test/support/programs could not be installed");
}

/** The tests of the pages keep what each view looks like. */
async function tellScreenshots(): Promise<void> {
  const names = await readdir(screenshotsFolder).catch(() => []);
  if (names.length > 0)
    console.log(`${names.length} screenshots of the pages: ${screenshotsFolder}`);
}

/** Skipped tests are easily overlooked. */
function tellNotRun(): void {
  if (!isLong)
    console.log(
      "SAMPLED: what is random or exhaustive; `bun run prove` runs all of it, see docs/contribute/index.md",
    );
  if (postgresMissing !== undefined)
    console.log(`NOT RUN: the tests with PostgreSQL: ${postgresMissing}`);
  if (redisMissing !== undefined) console.log(`NOT RUN: the tests with Redis: ${redisMissing}`);
  if (prometheusMissing !== undefined)
    console.log(`NOT RUN: the tests with Prometheus: ${prometheusMissing}`);
  for (const { name, missing } of reverseProxies)
    if (missing !== undefined) console.log(`NOT RUN: the tests with ${name}: ${missing}`);
}

async function runTests(testArguments: readonly string[]): Promise<TestTally> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-tests-"));
  // One for all test files: each would need seconds to start its own. It ends with this process.
  const postgres = postgresMissing === undefined ? await startPostgres() : undefined;
  const shared = postgres && { [SHARED_POSTGRES]: postgres.url() };
  const bunTest = async (
    name: string,
    files: readonly string[],
    workers: number,
    run: Run,
    environment = {},
  ): Promise<TestTally> => {
    const report = join(folder, `${name}.xml`);
    const reporter = ["--reporter=junit", `--reporter-outfile=${report}`];
    // Test files share no state, and a new global object for each would take longer.
    const how = [`--timeout=${oneTestTimeoutMs}`, "--no-isolate", `--timings=${timings}`];
    const args = ["test", ...how, `--parallel=${workers}`, ...reporter, ...files];
    const status = await run(args, testTimeoutMs, {
      ...shared,
      ...environment,
    });
    return tally(status, (await readIfThere(report)) ?? "");
  };
  const isWhole = testArguments.every((argument) => argument.startsWith("--"));
  try {
    const all = await Promise.all(
      isWhole
        ? [
            bunTest("all", ["test/", ...testArguments], workers, run),
            ...(areServersThere ? [bunTest("servers", onServers, 1, runQuietly, servers)] : []),
          ]
        : [bunTest("chosen", testArguments, workers, run)],
    );
    return {
      passed: all.reduce((sum, { passed }) => sum + passed, 0),
      failed: all.reduce((sum, { failed }) => sum + failed, 0),
      failures: all.flatMap(({ failures }) => failures),
    };
  } finally {
    await postgres?.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** No report means that a test crashed the run or ended the process, which `bun test` itself may call a success. */
function tally(status: number, report: string): TestTally {
  const summary = /<testsuites\b[^>]*>/.exec(report)?.[0] ?? "";
  const count = (name: string): number =>
    Number(new RegExp(`\\b${name}="(\\d+)"`).exec(summary)?.[1] ?? 0);
  const failed = count("failures") + count("errors");
  const passed = count("tests") - failed - count("skipped");
  const isSilent = failed === 0 && (status !== 0 || summary === "" || passed === 0);
  if (!isSilent) return { passed, failed, failures: failuresIn(report) };
  const problem = `bun test ended with status ${status} without naming a failed test`;
  return { passed, failed: 1, failures: [problem] };
}

/** One line for each failed test of a JUnit report: its file, its name, and the message of the failure. */
function failuresIn(report: string): readonly string[] {
  const failed = report.matchAll(/<testcase ([^<]*[^/<])>\s*<(?:failure|error)\b([^<]*?)>/g);
  return [...failed].map(([, test = "", failure = ""]) => {
    const names = [attribute(test, "classname"), attribute(test, "name")].filter(Boolean);
    const message = attribute(failure, "message").replaceAll(/\s+/g, " ");
    return `${attribute(test, "file")}: ${names.join(" > ")}: ${message.slice(0, messageShownMax)}`;
  });
}

/** The value of an attribute in the text of an XML tag; empty if there is none. */
function attribute(tag: string, name: string): string {
  const value = new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(tag)?.[1] ?? "";
  return value.replaceAll(/&(#\d+|\w+);/g, (_, entity: string) =>
    entity.startsWith("#")
      ? String.fromCharCode(Number(entity.slice(1)))
      : (xmlEntities[entity] ?? ""),
  );
}

async function readIfThere(path: string): Promise<string | undefined> {
  const file = Bun.file(path);
  return (await file.exists()) ? await file.text() : undefined;
}

type Run = (
  args: readonly string[],
  timeoutMs: number,
  environment?: Readonly<Record<string, string>>,
) => Promise<number>;

/** Both outputs are inherited: Bun's own summary goes to stderr, and the verdict must come after it. */
const run: Run = (args, timeoutMs, environment) =>
  start("inherit", args, timeoutMs, environment).exited;

/** The same beside another run: its output is printed when it has ended. */
const runQuietly: Run = async (args, timeoutMs, environment) => {
  const child = start("pipe", args, timeoutMs, environment);
  const texts = [child.stdout, child.stderr].map((stream) => new Response(stream).text());
  const status = await child.exited;
  console.log((await Promise.all(texts)).join(""));
  return status;
};

function start<Output extends "inherit" | "pipe">(
  output: Output,
  args: readonly string[],
  timeoutMs: number,
  environment: Readonly<Record<string, string>> = {},
) {
  return Bun.spawn([process.execPath, ...args], {
    cwd: projectRoot,
    env: { ...process.env, ...environment },
    stdio: ["ignore", output, output],
    timeout: timeoutMs,
  });
}

if (import.meta.main) {
  const { passed, failed } = await ci(process.argv.slice(2)).catch((error: unknown): Tally => {
    console.error(error);
    return { passed: 0, failed: 1 };
  });
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}
