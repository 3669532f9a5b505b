import { describe, test } from "bun:test";
import { chown, copyFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { binaryPath } from "./binary.ts";
import type { CliFolder } from "./cli.ts";

const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;

/** Tests of what needs root. For all other users they are skipped, and say so. */
export const testAsRoot = (name: string, run: () => Promise<void>): void => {
  tellNotRun();
  test.skipIf(!isRoot)(name, run);
};
export const describeAsRoot = (name: string, tests: () => void): void => {
  tellNotRun();
  describe.skipIf(!isRoot)(name, tests);
};

function tellNotRun(): void {
  if (!isRoot) process.stderr.write("NOT RUN: tests of what needs root: run them as root\n");
}

/**
 * Gives the folder to this user, and returns the command that runs the executable as this user. It is a copy in the
 * folder: the project may be below a folder that only its owner can enter, such as root's home. Only root can do this.
 */
export async function asUser(uid: number, { folder }: CliFolder): Promise<readonly string[]> {
  const copy = join(folder, "tollgate");
  await copyFile(await binaryPath(), copy);
  for (const name of [".", ...(await readdir(folder))]) await chown(join(folder, name), uid, uid);
  return ["setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", copy];
}

/** The command that runs the executable in this folder without the rights of root. */
export async function withoutRoot(cli: CliFolder): Promise<readonly string[]> {
  return isRoot ? await asUser(NOBODY, cli) : [await binaryPath()];
}
