import { Database } from "bun:sqlite";
import { mkdir, readdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { ReadableSubprocess } from "bun";

const projectRoot = resolve(import.meta.dir, "../../..");
const folder = join(projectRoot, "dist");
const executable = join(folder, "tollgate");
const sources = [
  "src",
  "drizzle",
  "package.json",
  "bun.lock",
  "config.example.toml",
  "scripts/build.ts",
  "scripts/release",
];

const buildTimeoutMs = 60_000;

let found: Promise<string> | undefined;

/**
 * The path of the executable that `TOLLGATE_BIN` names. Unless it is set: of one built from the tree as it stands,
 * dist/tollgate, built first when it is missing or older than anything it is made of. Asked again in the same process it
 * answers at once. Building takes about a second; give a `beforeAll` that calls this a time-out to match. Throws when the
 * build fails, with its output.
 */
export async function binaryPath(): Promise<string> {
  found ??= givenOrUpToDate();
  return found;
}

async function givenOrUpToDate(): Promise<string> {
  return givenBinary() ?? (await upToDate());
}

function givenBinary(): string | undefined {
  return process.env["TOLLGATE_BIN"];
}

/** Whether an executable was given that may be of another version than this tree. */
export function isGivenBinary(): boolean {
  return givenBinary() !== undefined;
}

async function upToDate(): Promise<string> {
  if (await isUpToDate()) return executable;
  await mkdir(folder, { recursive: true });
  // One of the processes that test beside each other builds, and the others wait. The kernel frees the lock of one
  // that is killed.
  const lock = new Database(join(folder, "build.lock"), { create: true, readwrite: true });
  try {
    lock.run(`PRAGMA busy_timeout = ${buildTimeoutMs}`);
    lock.run("BEGIN EXCLUSIVE");
    if (!(await isUpToDate())) await build();
  } finally {
    lock.close();
  }
  return executable;
}

async function isUpToDate(): Promise<boolean> {
  const builtMs = await modifiedMs(executable).catch(() => undefined);
  if (builtMs === undefined) return false;
  const changedMs = await Promise.all(sources.map((source) => newestMs(join(projectRoot, source))));
  return Math.max(...changedMs) <= builtMs;
}

/** When the newest file or folder under a path changed. A folder changes when a file in it goes away. */
async function newestMs(path: string): Promise<number> {
  const status = await stat(path);
  if (!status.isDirectory()) return status.mtimeMs;
  const inside = await Promise.all((await readdir(path)).map((name) => newestMs(join(path, name))));
  return Math.max(status.mtimeMs, ...inside);
}

async function modifiedMs(path: string): Promise<number> {
  return (await stat(path)).mtimeMs;
}

async function build(): Promise<void> {
  const child = Bun.spawn([process.execPath, "scripts/build.ts"], {
    cwd: projectRoot,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { stdout, stderr, status } = await outputOf(child);
  if (status !== 0) throw new Error(`the build failed\n${stdout}${stderr}`);
}

/** What a process wrote by its end, and how it ended. */
export interface ChildOutput {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number;
}

/** Waits for the end of a process whose both outputs are pipes. */
export async function outputOf(child: ReadableSubprocess): Promise<ChildOutput> {
  const [stdout, stderr, status] = await Promise.all([
    child.stdout.text(),
    child.stderr.text(),
    child.exited,
  ]);
  return { stdout, stderr, status };
}
