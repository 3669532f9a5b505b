import { dirname, join } from "node:path";

/**
 * The version that a build of the tree in this folder reports, as https://semver.org writes it: the version in package.json
 * with the commit as build metadata, such as `1.2.3+0a1b2c3d`. With uncommitted changes in tracked files it ends with
 * `.dirty`. Without git, or in an unpacked archive of the sources, it is only the version. Throws without a package.json.
 */
export async function buildVersion(projectRoot: string): Promise<string> {
  const file = Bun.file(join(projectRoot, "package.json"));
  const { version } = (await file.json()) as { version: string };
  const commit = await git(projectRoot, ["rev-parse", "HEAD"]);
  if (commit === undefined) return version;
  const changes = await git(projectRoot, ["status", "--porcelain", "--untracked-files=no"]);
  return `${version}+${commit.slice(0, 8)}${changes === "" ? "" : ".dirty"}`;
}

/** When the commit of the tree in this folder was made; the year 1980 without git. */
export async function commitTime(projectRoot: string): Promise<Date> {
  const seconds = await git(projectRoot, ["log", "-1", "--format=%ct"]);
  return seconds === undefined
    ? new Date("1980-01-01T00:00:00Z")
    : new Date(Number(seconds) * 1000);
}

/** What git prints, without the last line end. Undefined when it fails, or the folder is no repository by itself. */
async function git(folder: string, args: readonly string[]): Promise<string | undefined> {
  if (Bun.which("git") === null) return undefined;
  const child = Bun.spawn(["git", ...args], {
    cwd: folder,
    // The folder may lie inside the repository of something else.
    env: { ...process.env, GIT_CEILING_DIRECTORIES: dirname(folder) },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const text = await child.stdout.text();
  return (await child.exited) === 0 ? text.trimEnd() : undefined;
}
