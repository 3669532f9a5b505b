import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { chmod, mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { binaryPath } from "../../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { shells } from "../../support/binary/shells.ts";
import { sample } from "../../support/sample.ts";

/** The typed words, of which the last is completed, and some of the offers. */
const lines: readonly (readonly [words: readonly string[], offers: readonly string[]])[] = [
  [
    ["tollgate", "ba"],
    ["backup", "balance"],
  ],
  [["tollgate", "balance", "cr"], ["credit"]],
  [["tollgate", "--json", "--config", "x", "balance", "deb"], ["debit"]],
  [["tollgate", "--config=x", "balance", "deb"], ["debit"]],
  [["tollgate", "balance", "--json", "deb"], ["debit"]],
  [
    ["tollgate", "usage", "--by", ""],
    ["account", "day", "key", "model", "provider"],
  ],
  [["tollgate", "usage", "--csv", "--by", "da"], ["day"]],
  [["tollgate", "requests", "--status", "run"], ["running"]],
  [
    ["tollgate", "completion", ""],
    ["bash", "fish", "zsh"],
  ],
  [["tollgate", "help", "aud"], ["audit"]],
  [["tollgate", "balance", "help", "cr"], ["credit"]],
  [["tollgate", "audit", "--js"], ["--json"]],
  [["tollgate", "balance", "credit", "--re"], ["--ref"]],
  [["tollgate", "balance", "credit", "alice", "5", "--no"], ["--note"]],
  [["tollgate", "init", "conf"], ["(files)"]],
  [["tollgate", "models", "im"], ["import"]],
  [["tollgate", "models", "import", "conf"], ["(files)"]],
  [["tollgate", "models", "import", "--mar"], ["--margin"]],
  [["tollgate", "--config", "conf"], ["(files)"]],
  [["tollgate", "balance", "show", ""], []],
  [["tollgate", "balance", "alice", "cr"], []],
  [["tollgate", "balance", "credit", "--ref", ""], []],
  [["tollgate", "balance", "credit", "--ref", "--no", "--no"], ["--note"]],
  [["tollgate", "completion", "bash", ""], []],
  [["tollgate", "balance", "credit", "--", "--re"], []],
  [["tollgate", "balance", "show", "$(touch owned)", ""], []],
  [["tollgate", "balance", "$(touch owned)"], []],
  [["tollgate", "usage", "$(touch owned)", "`touch owned`", "--cs"], ["--csv"]],
];

let cli: CliFolder;
beforeAll(async () => {
  cli = await openCliFolder();
  await mkdir(join(cli.folder, "bin"));
  await symlink(await binaryPath(), join(cli.folder, "bin/tollgate"));
}, 60_000);
afterAll(() => cli.remove());

describe.each(shells.map((shell) => [shell.name, shell] as const))(
  "%s (skipped where it is not installed)",
  (_, shell) => {
    const whenInstalled = test.skipIf(shell.path === null);
    let script: string;
    beforeAll(async () => {
      script = (await cli.run("completion", shell.name)).stdout;
    });
    const offered = (words: readonly string[]) => shell.offered(script, words, cli.folder);

    const chosen = sample(lines, 8, ([words]) => `${shell.name} ${words.join(" ")}`);
    whenInstalled.each(chosen)("after %j offers %j", async (words, offers) => {
      expect(await offered(words)).toEqual([...offers]);
      expect(existsSync(join(cli.folder, "owned"))).toBe(false);
    });

    whenInstalled("offers every command that the help lists", async () => {
      const { stdout } = await cli.run("help");
      const section = /\nCommands:\n([^]*?)(?:\n\n|$)/.exec(stdout)?.[1] ?? "";
      const listed = Array.from(section.matchAll(/^ {2}([a-z-]+)/gm), ([, name = ""]) => name);
      expect(listed).toContain("serve");
      expect(await offered(["tollgate", ""])).toEqual(listed.toSorted());
    });

    whenInstalled("offers every option that a command's help lists", async () => {
      const { stdout } = await cli.run("keys", "create", "--help");
      const listed = Array.from(
        stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm),
        ([, flag]) => flag,
      );
      expect(listed).toContain("--budget");
      expect(await offered(["tollgate", "keys", "create", "--"])).toEqual(
        listed.map(String).toSorted(),
      );
    });

    whenInstalled("takes words and descriptions for nothing but themselves", async () => {
      const words = [
        "it's",
        "$(touch owned)",
        "a:b",
        "back\\slash",
        "two words",
        "*",
        "`touch owned`",
      ];
      const odd = await openCliFolder(null);
      const program = join(odd.folder, "bin/tollgate");
      const lines = words.map((word) => `${word}\tit's $(touch owned) [a]:b \\ %n`);
      await Bun.write(join(odd.folder, "offers"), `${lines.join("\n")}\n`);
      await Bun.write(program, `#!/bin/sh\ncat "${odd.folder}/offers"\n`);
      await chmod(program, 0o755);
      const offers = await shell.offered(script, ["tollgate", ""], odd.folder);
      const isOwned = existsSync(join(odd.folder, "owned"));
      await odd.remove();
      // Bash gets words as they are typed.
      const typed = [
        String.raw`it\'s`,
        String.raw`\$\(touch\ owned\)`,
        "a:b",
        String.raw`back\\slash`,
        String.raw`two\ words`,
        String.raw`\*`,
        "\\`touch\\ owned\\`",
      ];
      const expected = (shell.name === "bash" ? typed : words).toSorted();
      expect(offers).toEqual(expected);
      expect(isOwned).toBe(false);
    });
  },
);

describe("bash", () => {
  const [bash] = shells;
  const offered = async (...words: readonly string[]) =>
    bash?.offered((await cli.run("completion", "bash")).stdout, words, cli.folder);

  test("completes the value after an equals sign, which Bash treats as a separate word", async () => {
    expect(await offered("tollgate", "usage", "--by", "=", "da")).toEqual(["day"]);
    expect(await offered("tollgate", "usage", "--by", "=")).toContain("day");
  });

  test("and without that", async () => {
    expect(await offered("tollgate", "usage", "--by=da")).toEqual(["--by=day"]);
  });
});

describe("the command", () => {
  test("prints the script as JSON too", async () => {
    const { stdout } = await cli.run("completion", "zsh");
    expect(await cli.json("completion", "zsh")).toEqual({ shell: "zsh", script: stdout });
  });

  test("refuses an unknown shell and lists the supported ones", async () => {
    const { status, stdout, stderr } = await cli.run("completion", "tcsh");
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(/^error: [^\n]*'tcsh'[^\n]*bash, zsh, fish[^\n]*$/);
  });

  test("is not shown with the command that the scripts call", async () => {
    expect((await cli.run("help")).stdout).not.toMatch(/^ {2}complete /m);
  });

  test("needs no config", async () => {
    const empty = await openCliFolder(null);
    try {
      expect(await empty.run("completion", "bash")).toMatchObject({ status: 0, stderr: "" });
    } finally {
      await empty.remove();
    }
  });
});
