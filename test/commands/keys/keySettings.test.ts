import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";

interface CreatedKey {
  readonly id: string;
  readonly key: string;
}

let cli: CliFolder;
beforeEach(async () => {
  cli = await openCliFolder();
});
afterEach(() => cli.remove());

const create = async (...flags: readonly string[]): Promise<CreatedKey> =>
  (await cli.json("keys", "create", "--account", "alice", ...flags)) as CreatedKey;

const all = [
  ["--label", "laptop"],
  ["--expires", "30d"],
  ["--rpm", "60"],
  ["--tpm", "0"],
  ["--concurrent", "2"],
  ["--models", "small,gi*"],
  ["--budget", "12.5"],
].flat();

describe("keys show", () => {
  test("shows which limits are the key's and which the config's, and never the secret", async () => {
    const { id, key } = await create("--rpm", "60", "--tpm", "0", "--models", "small,gi*");
    const { status, stdout } = await cli.run("keys", "show", id);
    expect(status).toBe(0);
    for (const line of [
      `key +${id}`,
      "account +alice",
      "label +-",
      `prefix +${key.slice(0, 12)}`,
      "state +active",
      "expires +never",
      "models +small, gi\\*",
      "requests per minute +60",
      "tokens per minute +no limit",
      "concurrent requests +limit of the config",
      "spent, RUB +0",
      "budget, RUB +no limit",
    ])
      expect(stdout).toMatch(new RegExp(`^${line}$`, "m"));
    expect(stdout).not.toContain(key);
    expect(stdout).not.toContain("replaced by");
  }, 60_000);
});

test("no message repeats a key that is given instead of its id", async () => {
  const { key } = await create();
  const runs = await Promise.all(
    [["show"], ["set", "--rpm", "1"], ["rotate"], ["revoke"]].map(([name = "", ...flags]) =>
      cli.run("keys", name, key, ...flags),
    ),
  );
  for (const run of runs)
    expect(run).toEqual({
      status: 2,
      stdout: "",
      stderr: "error: this is a key, not a key id: `tollgate keys list` shows the id of each key",
    });
}, 60_000);

describe("keys set", () => {
  test("takes every option of create, and returns the changed key", async () => {
    const { id } = await create();
    const before = Date.now();
    const answer = (await cli.json("keys", "set", id, ...all)) as { expires_at: string };
    expect(answer).toMatchObject({
      id,
      label: "laptop",
      models: ["small", "gi*"],
      budget_rub: "12.5",
      limits: { requests_per_minute: 60, tokens_per_minute: 0, concurrent_requests: 2 },
    });
    const lifeMs = Date.parse(answer.expires_at) - before;
    expect(lifeMs).toBeGreaterThanOrEqual(30 * DAY_MS);
    expect(lifeMs).toBeLessThan(30 * DAY_MS + 60_000);
    expect(await cli.json("keys", "show", id)).toEqual(answer);
    expect(await cli.json("keys", "list")).toEqual([answer]);
  }, 60_000);

  test("removes a setting with none, and keeps settings that are not named", async () => {
    const plain = await create();
    const { id } = await create(...all);
    const unset = (await cli.json("keys", "show", plain.id)) as object;
    const some = ["--label", "none", "--rpm", "none", "--budget", "none"];
    expect(await cli.json("keys", "set", id, ...some)).toMatchObject({
      label: null,
      expires_at: expect.any(String),
      models: ["small", "gi*"],
      budget_rub: null,
      limits: { requests_per_minute: null, tokens_per_minute: 0, concurrent_requests: 2 },
    });
    const others = ["--expires", "--tpm", "--concurrent", "--models"];
    const answer = await cli.json("keys", "set", id, ...others.flatMap((flag) => [flag, "none"]));
    const own = { id, prefix: expect.any(String), created_at: expect.any(String) };
    expect(answer).toEqual({ ...unset, ...own });
  }, 60_000);
});

test("keys create accepts the label none", async () => {
  const { id } = await create("--label", "none");
  expect(await cli.json("keys", "show", id)).toMatchObject({ label: "none" });
}, 60_000);
