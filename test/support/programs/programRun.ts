import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { outputOf, type ChildOutput } from "../binary/binary.ts";

/** How a program is started. Paths of files are relative to its home. */
export interface ProgramStart {
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

/** A temporary home of a program, with the empty folder that it works in. */
export interface ProgramHome {
  readonly path: string;
  readonly workFolder: string;
  remove(): Promise<void>;
}

/** The programs are large: on a busy machine the start alone takes half a minute. */
const runTimeoutMs = 180_000;
/** For a test that runs one program. */
export const programTestTimeoutMs = runTimeoutMs + 20_000;
/** Nothing listens there. A program that needs any address but this machine's own fails. */
const closedProxy = "http://127.0.0.1:9";
const proxyVariables = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

export async function openProgramHome(): Promise<ProgramHome> {
  const path = await mkdtemp(join(tmpdir(), "tollgate-program-"));
  const workFolder = join(path, "work");
  await mkdir(workFolder);
  await mkdir(join(path, "tmp"));
  return { path, workFolder, remove: () => rm(path, { recursive: true, force: true }) };
}

/**
 * Runs a program in its home until it ends. It inherits no variable but PATH. Nothing that it started is left
 * behind. Throws when it takes too long, with what it wrote.
 */
export async function runProgram(home: ProgramHome, start: ProgramStart): Promise<ChildOutput> {
  const { command, environment = {}, files = {} } = start;
  for (const [name, text] of Object.entries(files)) await Bun.write(join(home.path, name), text);
  const child = Bun.spawn([...command], {
    cwd: home.workFolder,
    env: {
      PATH: process.env["PATH"] ?? "",
      SHELL: "/bin/bash",
      HOME: home.path,
      TMPDIR: join(home.path, "tmp"),
      ...withoutNetwork(),
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe"],
    // The leader of a process group, so that its own children can be ended with it.
    detached: true,
  });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    endGroup(child.pid);
  }, runTimeoutMs);
  try {
    // A child that outlives the program would keep its outputs open.
    void child.exited.then(() => endGroup(child.pid));
    const output = await outputOf(child);
    if (isLate) throw new Error(`it did not end:\n${output.stdout}${output.stderr}`);
    return output;
  } finally {
    clearTimeout(timer);
  }
}

/** Each of these programs obeys the variables in one of the two cases. */
function withoutNetwork(): Record<string, string> {
  const pairs = proxyVariables.map((name): [string, string] => [name, closedProxy]);
  const upper: [string, string][] = [...pairs, ["NO_PROXY", "127.0.0.1"]];
  const lower = upper.map(([name, value]): [string, string] => [name.toLowerCase(), value]);
  return Object.fromEntries([...upper, ...lower]);
}

function endGroup(leader: number): void {
  try {
    process.kill(-leader, "SIGKILL");
  } catch {
    // The group has ended.
  }
}
