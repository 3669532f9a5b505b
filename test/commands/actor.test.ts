import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { ConsoleState } from "../../src/contract/operator/consoleState.ts";
import { binaryPath } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { signIn, startConsole } from "../support/binary/consoleProcess.ts";

let cli: CliFolder;
beforeAll(async () => {
  // Of the environment, for a command without `--actor`.
  cli = await openCliFolder(undefined, ["env", "TOLLGATE_ACTOR=bot 7", await binaryPath()]);
});
afterAll(() => cli.remove());

function lastActors(): Record<string, unknown> {
  using database = new Database(cli.database, { readonly: true });
  const admin = database.query("SELECT actor FROM admin_log ORDER BY id DESC").get();
  const ledger = database.query("SELECT actor FROM ledger ORDER BY id DESC").get();
  return { admin, ledger };
}

const systemUser = /^[^ ]+ \(uid \d+\)/.source;

test("is the system's user and who is named: by the option, else by the environment", async () => {
  await cli.json("accounts", "create", "alice");
  const shown = (name: string) => ({
    actor: expect.stringMatching(new RegExp(`${systemUser} for ${name}$`)),
  });
  for (const [args, name] of [
    [[], "bot 7"],
    [["--actor", "Анна"], "Анна"],
  ] as const) {
    await cli.json("balance", "credit", "alice", "5", ...args);
    expect(lastActors()).toEqual({ admin: shown(name), ledger: shown(name) });
  }
});

test("is what the console shows, and writes", async () => {
  const console = await startConsole(cli, ["--listen", "127.0.0.1:0", "--actor", "boris"]);
  try {
    const page = await signIn(console);
    const state = (await (await page.get("/api/state")).json()) as ConsoleState;
    expect(state.actor).toMatch(new RegExp(`${systemUser} for boris$`));
    expect((await page.post("/api/accounts", { name: "bob" })).status).toBe(200);
    expect(lastActors()["admin"]).toEqual({ actor: state.actor });
  } finally {
    await console.stop();
  }
});
