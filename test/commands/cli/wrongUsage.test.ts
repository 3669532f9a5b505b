import packageJson from "../../../package.json" with { type: "json" };
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { openCliFolder, type CommandRun, type CliFolder } from "../../support/binary/cli.ts";

/** Command lines that fail before anything is opened or changed. The message is a part of the one line on stderr. */
const wrongLines: readonly (readonly [args: readonly string[], message: string])[] = [
  [["acounts"], "unknown command 'acounts' (Did you mean accounts?)"],
  [["accounts", "lst"], "unknown command 'lst' (Did you mean list?)"],
  [["accounts", "list", "--jsn"], "unknown option '--jsn' (Did you mean --json?)"],
  [["accounts", "list", "extra"], "too many arguments for 'list'"],
  [
    ["demo", "--config", "x.toml"],
    "demo does not take --config: `tollgate serve --config x.toml` runs",
  ],
  [["xyzzy"], "unknown command 'xyzzy': see tollgate help"],
  [["accounts", "create"], "missing required argument 'name': see tollgate help accounts create"],
  [["accounts", "create", "a b"], "Use 1 to 64 letters"],
  [["accounts", "create", "x\n\u001b[31m"], "'x\\n\\u001b[31m'"],
  [["accounts", "create", "a", "--overdraft", "-1"], "The overdraft must be 0 or more"],
  [["accounts", "set", "a", "--low", "-1"], "The threshold must be 0 or more"],
  [
    ["accounts", "set", "a"],
    "nothing to change: give at least one of --overdraft, --low, --notify",
  ],
  [["keys", "create"], "required option '--account <name>' not specified"],
  [["keys", "create", "--account", "a", "--expires", "soon"], "Write a duration such as 30d"],
  [["keys", "create", "--account", "a", "--expires", "2020-01-01"], "must be in the future"],
  [["keys", "create", "--account", "a", "--rpm", "-1"], "Write a whole number from 0"],
  [["keys", "create", "--account", "a", "--tpm", "1.5"], "Write a whole number from 0"],
  [["keys", "create", "--account", "a", "--concurrent", "many"], "Write a whole number from 0"],
  [["keys", "create", "--account", "a", "--models", "a,,b"], "Separate model names with commas"],
  [["keys", "create", "--account", "a", "--budget", "0"], "The amount must be more than 0"],
  [["keys", "create", "--account", "a", "--label", "a\tb"], "without control characters"],
  [["accounts", "create", "a", "--actor", "a\tb"], "--actor: Write 1 to 64 printable characters"],
  [["keys", "show"], "missing required argument 'id'"],
  [["vouchers", "create"], "required option '--amount <roubles>' not specified"],
  [["vouchers", "create", "--amount", "0"], "The amount must be more than 0"],
  [["vouchers", "create", "--amount", "5", "--count", "0"], "a whole number from 1 to 1000"],
  [["vouchers", "create", "--amount", "5", "--count", "1001"], "a whole number from 1 to 1000"],
  [["vouchers", "create", "--amount", "5", "--expires", "0d"], "must be in the future"],
  [["vouchers", "list", "--csv", "--json"], "--csv and --json cannot be combined"],
  [
    ["keys", "show", "sk-tg-secret"],
    "this is a key, not a key id: `tollgate keys list` shows the id",
  ],
  [
    ["keys", "set", "key_1"],
    "nothing to change: give at least one of --label, --expires, --rpm, --tpm, --concurrent, --models, --budget",
  ],
  [
    ["keys", "set", "key_1", "--account", "a"],
    "unknown option '--account': see tollgate help keys set",
  ],
  [["keys", "set", "key_1", "--budget", "0"], "The amount must be more than 0"],
  [["keys", "set", "key_1", "--rpm", "None"], "Write a whole number from 0"],
  [["keys", "set", "key_1", "--expires", "2020-01-01"], "must be in the future"],
  [["keys", "create", "--account", "a", "--budget", "none"], "Write roubles as a plain decimal"],
  [["keys", "rotate"], "missing required argument 'id'"],
  [["keys", "rotate", "key_1", "--grace", "366d"], "such as 24h or 7d, from 0s to 365d"],
  [["keys", "rotate", "key_1", "--grace", "-1h"], "such as 24h or 7d, from 0s to 365d"],
  [["keys", "rotate", "key_1", "--grace", "none"], "such as 24h or 7d, from 0s to 365d"],
  [["keys", "rotate", "sk-tg-secret"], "this is a key, not a key id"],
  [["balance", "credit", "a"], "missing required argument 'roubles'"],
  [["balance", "credit", "a", "0"], "The amount must be more than 0"],
  [["balance", "credit", "a", "1,5"], "Write roubles as a plain decimal"],
  [["balance", "credit", "a", "0.0000000001"], "at most 9 digits after the point"],
  [["balance", "credit", "a", "4000000000.000000001"], "The maximum is 4000000000 roubles"],
  [["balance", "debit", "a", "-5"], "The amount must be more than 0"],
  [["balance", "debit", "--", "a", "-5"], "The amount must be more than 0"],
  [["balance", "debit", "a", "-5x"], "unknown option '-5x'"],
  [["balance", "credit", "a", "5", "--ref", "req:1"], "The prefix req: is reserved for charges"],
  [["balance", "credit", "a", "5", "--ref"], "argument missing"],
  [["balance", "history", "a", "--limit", "0"], "Write a whole number from 1"],
  [["usage", "--by", "moon"], "Allowed choices are day, model, provider, account, key"],
  [["usage", "--since", "2026-02-30"], "a date such as 2026-12-31"],
  [
    ["usage", "--since", "2026-02-02", "--until", "2026-02-02"],
    "--since must be earlier than --until",
  ],
  [["usage", "--csv", "--json"], "--csv and --json cannot be combined"],
  [
    ["requests", "--status", "lost"],
    "Allowed choices are running, done, failed, cancelled, interrupted",
  ],
  [["requests", "show"], "missing required argument 'id'"],
  [["requests", "show", "req_1", "--account", "a"], "--account applies to the list of requests"],
  [["requests", "--limit", "50", "show", "req_1"], "--limit applies to the list of requests"],
  [["models", "extra"], "too many arguments for 'models'"],
  [
    ["models", "import", "x.json", "--provider", "a", "--models", "*"],
    "required option '--rate <roubles>' not specified",
  ],
  [
    ["models", "import", "x.json", "--rate", "90", "--models", "*"],
    "required option '--provider <id>' not specified: see tollgate help models import",
  ],
  [["models", "import", "--rate", "0", "--provider", "a"], "Write a plain decimal above 0"],
  [["models", "import", "--rate", "9e1", "--provider", "a"], "Write a plain decimal above 0"],
  [["models", "import", "--margin", "-1"], "Write a percentage from 0, such as 20"],
  [["models", "import", "--models", "a,,b"], "Separate model names with commas"],
  [
    ["models", "import", "x.json", "--rate", "90", "--provider", "a"],
    "give --models, such as 'gpt-5*', or --litellm-provider, such as openai",
  ],
  [["backup"], "missing required argument 'file'"],
  [["restore"], "missing required argument 'file'"],
  [["restore", "a.db", "b.db"], "but got 2: a.db, b.db: see tollgate help restore"],
  [["help", "acounts"], "unknown command 'acounts' (Did you mean accounts?)"],
  [["help", "accounts", "nonsense"], "'accounts nonsense': see tollgate help accounts"],
  [["help", "accounts", "crate"], "(Did you mean create?)"],
  [["help", "audit", "all"], "unknown command 'audit all'"],
  [["accounts", "help", "lst"], "unknown command 'lst' (Did you mean list?)"],
  [["audit", "--config"], "'--config <file>' argument missing: see tollgate help"],
];

let cli: CliFolder;
const runs = new Map<readonly string[], CommandRun>();
beforeAll(async () => {
  cli = await openCliFolder();
  const lanes = [0, 1, 2, 3].map(async (lane) => {
    for (const [args] of wrongLines.filter((_, at) => at % 4 === lane)) {
      runs.set(args, await cli.run(...args));
    }
  });
  await Promise.all(lanes);
}, 60_000);
afterAll(() => cli.remove());

describe("a wrong command line ends with status 2 and one line on stderr", () => {
  test.each(wrongLines.map(([args, message]) => [args.join(" "), args, message] as const))(
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
