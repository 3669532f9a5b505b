/** Every check that needs no running gateway: `bun scripts/check.ts`, the same by hand and in CI. */
import { copyFile, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { outputOf } from "../test/support/binary/binary.ts";

const projectRoot = resolve(import.meta.dir, "..");
const lockfiles = [
  "bun.lock",
  "test/support/programs/bun.lock",
  "scripts/docs/site/bun.lock",
  "scripts/release/runtimes/bun.lock",
];
const toolTimeoutMs = 5 * 60_000;

/** The result of a check. `complaint` is the output to show when `ok` is false. */
interface Finding {
  readonly ok: boolean;
  readonly complaint: string;
}

interface CheckResult extends Finding {
  readonly name: string;
}

interface Check {
  readonly name: string;
  run(): Promise<Finding>;
}

const everywhere: readonly Check[] = [
  { name: "types of the pages (tsc)", run: () => tool("tsc", "--noEmit", "--project", "src/web") },
  {
    // `typeCheck` in .oxlintrc.json: it tells the compiler's errors too, but of the pages.
    name: "types and lint (oxlint)",
    run: () => tool("oxlint", "--deny-warnings", "--report-unused-disable-directives"),
  },
  { name: "format (oxfmt)", run: () => tool("oxfmt", "--check") },
  { name: "unused (knip)", run: () => tool("knip", "--no-progress") },
  { name: "bun.lock names no address", run: lockfileNamesNoAddress },
  { name: "mutants apply (git)", run: mutantsApply },
];

// It may ask the registry, so it stays out of the way of work without a network.
const inContinuousIntegration: readonly Check[] = [
  { name: "bun.lock is what package.json asks for", run: lockfileIsUpToDate },
];

/** Runs all checks at once and prints a line for each, with the complaint under one that failed. Never throws. */
export async function runChecks(): Promise<CheckResult[]> {
  const checks = process.env["CI"] ? [...everywhere, ...inContinuousIntegration] : everywhere;
  return await Promise.all(checks.map(runCheck));
}

async function runCheck(check: Check): Promise<CheckResult> {
  const startedMs = performance.now();
  const found = await check
    .run()
    .catch((error: unknown) => ({ ok: false, complaint: String(error) }));
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`${found.ok ? "ok    " : "FAILED"} ${check.name}, ${seconds} s`);
  if (!found.ok) console.log(found.complaint.trimEnd().replace(/^/gm, "       "));
  return { name: check.name, ...found };
}

/** Runs a tool of node_modules. `--bun` shows it this Bun as `node`, so that none need be installed. */
async function tool(...command: readonly string[]): Promise<Finding> {
  return await run(["--bun", "x", "--no-install", ...command], projectRoot);
}

/** Runs this Bun. */
async function run(args: readonly string[], cwd: string): Promise<Finding> {
  return await spawned([process.execPath, ...args], cwd);
}

async function spawned(command: readonly string[], cwd: string): Promise<Finding> {
  const child = Bun.spawn([...command], {
    cwd,
    env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: "0" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: toolTimeoutMs,
  });
  const { stdout, stderr, status } = await outputOf(child);
  return {
    ok: status === 0,
    complaint: `${stdout}${stderr}` || `it ended with status ${status} without any output`,
  };
}

/** A mutant that no longer applies proves nothing. Without this check only `scripts/mutants.ts` would report it. */
async function mutantsApply(): Promise<Finding> {
  const folder = join("test", "mutants");
  const names = (await readdir(join(projectRoot, folder))).filter((name) =>
    name.endsWith(".patch"),
  );
  const patches = names.map((name) => join(folder, name));
  // One by one: given together, git has each follow on those before it.
  const found = await Promise.all(
    patches.map((patch) => spawned(["git", "apply", "--check", patch], projectRoot)),
  );
  const complaints = found.filter(({ ok }) => !ok).map(({ complaint }) => complaint);
  return { ok: complaints.length === 0, complaint: complaints.join("") };
}

/** With another registry configured, Bun writes its address for each package, and others cannot install. */
async function lockfileNamesNoAddress(): Promise<Finding> {
  const texts = await Promise.all(
    lockfiles.map((name) => Bun.file(join(projectRoot, name)).text()),
  );
  const guilty = texts.flatMap((text) => text.split("\n")).filter((line) => line.includes("://"));
  return {
    ok: guilty.length === 0,
    complaint: `${guilty.length} lines hold "://", the first: ${guilty[0] ?? ""}`,
  };
}

/**
 * `bun install --frozen-lockfile` accepts a direct dependency that the lockfile knows only as a dependency of
 * another package. Making the lockfile again in a temporary folder shows that.
 */
async function lockfileIsUpToDate(): Promise<Finding> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-lockfile-"));
  try {
    for (const name of ["package.json", "bun.lock"])
      await copyFile(join(projectRoot, name), join(folder, name));
    const install = await run(["install", "--lockfile-only", "--ignore-scripts"], folder);
    if (!install.ok) return install;
    const [committed, remade] = await Promise.all([
      lockfileText(projectRoot),
      lockfileText(folder),
    ]);
    return {
      ok: committed === remade,
      complaint: "`bun install` changes bun.lock: run it, and commit the change",
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The lockfile's text as it would be with the default registry, whichever one this machine uses. */
async function lockfileText(folder: string): Promise<string> {
  const text = await Bun.file(join(folder, "bun.lock")).text();
  return text.replace(/"https?:\/\/[^"]*"/g, '""');
}

if (import.meta.main) {
  const results = await runChecks();
  process.exit(results.every((result) => result.ok) ? 0 : 1);
}
