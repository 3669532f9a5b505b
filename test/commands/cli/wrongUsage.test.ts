import packageJson from "../../../package.json" with { type: "json" };
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { openCliFolder, type CommandRun, type CliFolder } from "../../support/binary/cli.ts";
import { wrongLines } from "./wrongLines.ts";
import { sample } from "../../support/sample.ts";

const chosen = sample(wrongLines, 25, ([args]) => args.join(" "));
let cli: CliFolder;
const runs = new Map<readonly string[], CommandRun>();
beforeAll(async () => {
  cli = await openCliFolder();
  const lanes = [0, 1, 2, 3].map(async (lane) => {
    for (const [args] of chosen.filter((_, at) => at % 4 === lane)) {
      runs.set(args, await cli.run(...args));
    }
  });
  await Promise.all(lanes);
}, 60_000);
afterAll(() => cli.remove());

describe("a wrong command line ends with status 2 and one line on stderr", () => {
  test.each(chosen.map(([args, message]) => [args.join(" "), args, message] as const))(
    "%j",
    (_, args, message) => {
      const run = runs.get(args);
      expect(run).toMatchObject({ status: 2, stdout: "" });
      expect(run?.stderr).toContain(message);
      expect(run?.stderr).toMatch(/^error: [^\p{C}]+$/u);
    },
  );

  test("and opens no database", () => expect(existsSync(cli.database)).toBe(false));
});

test("a long argument is cut in the error message", async () => {
  const names = Array.from({ length: 5000 }, (_, at) => `model-${at}`).join(",");
  const lines = await Promise.all([
    cli.run("keys", "create", "--account", "a", "--models", names),
    cli.run("accounts", "create", names),
  ]);
  for (const { stderr } of lines) {
    expect(stderr).toContain("model-0,model-1,");
    expect(stderr).toContain("...' is invalid");
    expect(stderr.length).toBeLessThan(400);
  }
  expect(lines[0]?.stderr).toEndWith("List at most 100 models. Use * to match several models.");
});

describe("help", () => {
  test("is printed as an error for a command line without a command", async () => {
    for (const args of [[], ["accounts"]]) {
      const { status, stdout, stderr } = await cli.run(...args);
      expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
      expect(stderr).toStartWith(`Usage: tollgate ${args.join(" ")}`.trimEnd());
    }
  });

  test("is not printed for --version, which prints the version of the package and the commit", async () => {
    const { status, stdout } = await cli.run("--version");
    const [version, build] = stdout.split("+");
    expect({ status, version }).toEqual({ status: 0, version: packageJson.version });
    // Without git there is no commit.
    if (build !== undefined) expect(build).toMatch(/^[0-9a-f]{8}(\.dirty)?$/);
  });
});
