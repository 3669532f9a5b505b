import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildVersion, commitTime } from "../../scripts/release/buildVersion.ts";
import { compile, projectRoot } from "../../scripts/release/compile.ts";
import { differenceOf } from "../../scripts/release/reproducibility.ts";
import { namedTargets } from "../../scripts/release/targets.ts";
import { openStore } from "../../src/store/open.ts";
import { binaryPath, outputOf } from "../support/binary/binary.ts";
import { isLong } from "../support/sample.ts";

let folder: string;
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "tollgate-build-")));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe.skipIf(Bun.which("git") === null)("the version of a build", () => {
  let tree: string;
  beforeAll(async () => {
    tree = join(folder, "tree");
    await mkdir(tree);
    await writeFile(join(tree, "package.json"), '{ "version": "1.2.3" }');
  });

  async function git(...args: readonly string[]): Promise<string> {
    const self = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    const child = Bun.spawn(["git", ...self, ...args], {
      cwd: tree,
      env: { ...process.env, GIT_COMMITTER_DATE: "2026-01-02T03:04:05Z" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { stdout, stderr, status } = await outputOf(child);
    if (status !== 0) throw new Error(stderr);
    return stdout.trim();
  }

  test("names the commit, and says when tracked files have changed since", async () => {
    expect(await buildVersion(tree)).toBe("1.2.3");
    await git("init", "--quiet");
    // A repository without a commit.
    expect(await buildVersion(tree)).toBe("1.2.3");
    await git("add", ".");
    await git("commit", "--quiet", "--message", "first");
    const commit = (await git("rev-parse", "HEAD")).slice(0, 8);
    expect(await buildVersion(tree)).toBe(`1.2.3+${commit}`);
    expect(await commitTime(tree)).toEqual(new Date("2026-01-02T03:04:05Z"));

    await writeFile(join(tree, "untracked"), "");
    expect(await buildVersion(tree)).toBe(`1.2.3+${commit}`);
    await writeFile(join(tree, "package.json"), '{ "version": "1.2.4" }');
    expect(await buildVersion(tree)).toBe(`1.2.4+${commit}.dirty`);
  });

  test("names no commit of a repository that the tree only lies in", async () => {
    const inner = join(tree, "unpacked");
    await mkdir(inner);
    await writeFile(join(inner, "package.json"), '{ "version": "3.0.0" }');
    expect(await buildVersion(inner)).toBe("3.0.0");
    expect(await commitTime(inner)).toEqual(new Date("1980-01-01T00:00:00Z"));
  });
});

describe("two builds", () => {
  // A release builds twice too.
  test.skipIf(!isLong)(
    "of the same sources in different folders are the same bytes",
    async () => {
      const first = await compile(join(folder, "first"), "1.2.3+0a1b2c3d");
      const second = await compile(join(folder, "second"), "1.2.3+0a1b2c3d");
      const [one, other] = await Promise.all(
        [first, second].map(({ path }) => Bun.file(path).bytes()),
      );
      expect(one && other && differenceOf(one, other)).toBeUndefined();
      const child = Bun.spawn([first.path, "--version"], { stdio: ["ignore", "pipe", "pipe"] });
      expect((await outputOf(child)).stdout).toBe("1.2.3+0a1b2c3d\n");
    },
    60_000,
  );

  test("have stack traces that name the source files and their lines", async () => {
    const config = join(folder, "config.toml");
    const preload = join(folder, "tellStack.ts");
    await writeFile(config, "", { mode: 0o600 });
    // The audit starts a Worker.
    await writeFile(
      preload,
      `const Real = globalThis.Worker;
       globalThis.Worker = class extends Real {
         constructor(url) { console.error(new Error().stack); super(url); }
       };`,
    );
    openStore({
      path: join(folder, "tollgate.db"),
      durability: "process",
      serving: false,
    }).closeNow();
    const child = Bun.spawn([await binaryPath(), "audit", "--config", config], {
      cwd: folder,
      env: { BUN_OPTIONS: `--preload ${preload}` },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { stderr } = await outputOf(child);
    const [, file = "", line] = /at startWorker \((src\/\S+):(\d+):\d+\)/.exec(stderr) ?? [];
    const source = await Bun.file(join(projectRoot, file)).text();
    expect(source.split("\n")[Number(line) - 1]).toContain("return new Worker(");
  }, 60_000);

  test("that differ are told by what differs", () => {
    const build = (text: string) => new TextEncoder().encode(`${text}${".".repeat(100)}end`);
    expect(differenceOf(build("made in /a on Monday"), build("made in /b on Sunday"))).toBe(
      'bytes 9 to 15: "a on Mo" and "b on Su"',
    );
    expect(differenceOf(build("a"), build("ab"))).toStartWith(
      "sizes: 104 and 105 bytes\nbytes 1 to",
    );
  });
});

describe("the targets of a release", () => {
  test("are those that are fit for use, unless they are named", () => {
    const names = namedTargets([]).map(({ name }) => name);
    expect(names).toContain("linux-x64");
    expect(names).not.toContain("windows-x64");
    expect(namedTargets(["windows-x64"]).map(({ bunTarget }) => bunTarget)).toEqual([
      "bun-windows-x64",
    ]);
  });

  test("have known names only", () => {
    expect(() => namedTargets(["linux"])).toThrow(
      '"linux" is not a target of a release: use one of linux-x64, linux-x64-musl,',
    );
  });
});
