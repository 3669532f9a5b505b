import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/time.ts";
import { openDesk, type Desk } from "../support/binary/cli.ts";

interface CreatedKey {
  readonly id: string;
  readonly key: string;
}

let desk: Desk;
beforeEach(async () => {
  desk = await openDesk();
});
afterEach(() => desk.remove());

const create = async (...flags: readonly string[]): Promise<CreatedKey> =>
  (await desk.json("keys", "create", "--account", "alice", ...flags)) as CreatedKey;

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
  test("answers with the element of keys list", async () => {
    const { id } = await create(...all);
    const [[listed], shown] = await Promise.all([
      desk.json("keys", "list") as Promise<unknown[]>,
      desk.json("keys", "show", id),
    ]);
    expect(shown).toEqual(listed);
    expect(shown).toMatchObject({ id, label: "laptop", budget_rub: "12.5", spent_rub: "0" });
  }, 20_000);

  test("tells people what is limited by the key and what by the config, and never the key", async () => {
    const { id, key } = await create("--rpm", "60", "--tpm", "0", "--models", "small,gi*");
    const { status, stdout } = await desk.run("keys", "show", id);
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
      "requests at a time +as the config says",
      "spent, RUB +0",
      "budget, RUB +no limit",
    ])
      expect(stdout).toMatch(new RegExp(`^${line}$`, "m"));
    expect(stdout).not.toContain(key);
    expect(stdout).not.toContain("replaced by");
  }, 20_000);

  test("of a key that is not there says where to look", async () => {
    desk.makeDatabase();
    for (const args of [
      ["show", "key_x"],
      ["set", "key_x", "--rpm", "1"],
      ["rotate", "key_x"],
    ])
      expect(await desk.run("keys", ...args)).toEqual({
        status: 1,
        stdout: "",
        stderr: 'error: there is no key "key_x": tollgate keys list shows them',
      });
  }, 20_000);
});

test("a key that was taken for its id is in no message", async () => {
  const { key } = await create();
  const runs = await Promise.all(
    [["show"], ["set", "--rpm", "1"], ["rotate"], ["revoke"]].map(([name = "", ...flags]) =>
      desk.run("keys", name, key, ...flags),
    ),
  );
  for (const run of runs)
    expect(run).toEqual({
      status: 2,
      stdout: "",
      stderr:
        "error: that is a key, not its id: tollgate keys list shows the id beside the first characters of the key",
    });
}, 20_000);

describe("keys set", () => {
  test("takes every flag of create, and answers with what it made", async () => {
    const { id } = await create();
    const before = Date.now();
    const answer = (await desk.json("keys", "set", id, ...all)) as { expires_at: string };
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
    expect(await desk.json("keys", "show", id)).toEqual(answer);
    expect(await desk.json("keys", "list")).toEqual([answer]);
  }, 20_000);

  test("removes each limit by none, and leaves alone what it does not name", async () => {
    const plain = await create();
    const { id } = await create(...all);
    const unset = (await desk.json("keys", "show", plain.id)) as object;
    const some = ["--label", "none", "--rpm", "none", "--budget", "none"];
    expect(await desk.json("keys", "set", id, ...some)).toMatchObject({
      label: null,
      expires_at: expect.any(String),
      models: ["small", "gi*"],
      budget_rub: null,
      limits: { requests_per_minute: null, tokens_per_minute: 0, concurrent_requests: 2 },
    });
    const others = ["--expires", "--tpm", "--concurrent", "--models"];
    const answer = await desk.json("keys", "set", id, ...others.flatMap((flag) => [flag, "none"]));
    const own = { id, prefix: expect.any(String), created_at: expect.any(String) };
    expect(answer).toEqual({ ...unset, ...own });
  }, 20_000);

  test("refuses a model that the config does not have, and changes nothing", async () => {
    const { id } = await create();
    const args = ["keys", "set", id, "--rpm", "1", "--models", "larg"];
    expect(await desk.run(...args)).toEqual({
      status: 1,
      stdout: "",
      stderr: 'error: the config has no model "larg"; its models are: small, gift',
    });
    expect(await desk.json("keys", "show", id)).toMatchObject({
      models: null,
      limits: { requests_per_minute: null },
    });
  }, 20_000);

  test("refuses a revoked key, and says what is left to do", async () => {
    const { id } = await create();
    await desk.run("keys", "revoke", id);
    expect(await desk.run("keys", "set", id, "--expires", "none")).toEqual({
      status: 1,
      stdout: "",
      stderr: `error: key ${id} is revoked for ever: tollgate keys create --account alice issues another`,
    });
  }, 20_000);

  test("says in its help what none does, and that a line has one budget", async () => {
    const { stdout } = await desk.run("keys", "set", "--help");
    const words = stdout.replaceAll(/\s+/g, " ");
    expect(words).toContain("none = the config's limit");
    expect(words).toContain("set on one of them it is that of all");
  }, 20_000);
});

test("a label that is called none is one at create", async () => {
  const { id } = await create("--label", "none");
  expect(await desk.json("keys", "show", id)).toMatchObject({ label: "none" });
}, 20_000);

/** Texts in which characters that are not seen by themselves join or mark those beside them. */
const joined = {
  "a family": "\u{1F468}\u200d\u{1F469}\u200d\u{1F467}",
  "a rainbow flag": "\u{1F3F3}\ufe0f\u200d\u{1F308}",
  "a heart on fire": "\u2764\ufe0f\u200d\u{1F525}",
  "a runner with a skin tone": "\u{1F3C3}\u{1F3FD}\u200d\u2640\ufe0f",
  "a flag of two letters": "\u{1F1EB}\u{1F1F7}",
  "the flag of England": "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
  "a keycap": "1\ufe0f\u20e3",
  "a Persian word": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
  "a Hindi word": "\u0915\u094d\u200d\u0937",
};
test.each(Object.entries(joined))(
  "a label may have %s",
  async (_, text) => {
    const value = `team ${text} one`;
    const { id } = await create("--label", value);
    expect(await desk.json("keys", "show", id)).toMatchObject({ label: value });
    expect((await desk.run("keys", "show", id)).stdout).toContain(value);
  },
  20_000,
);

const unseen = {
  "a joiner at its beginning": "\u200d\u{1F467}",
  "a joiner at its end": "\u{1F468}\u200d",
  "two joiners in a row": "\u{1F468}\u200d\u200d\u{1F467}",
  "a joiner between Latin letters": "ali\u200dce",
  "a joiner behind a marked Latin letter": "a\ufe0f\u200d\u{1F467}",
  "a non-joiner between Latin letters": "ali\u200cce",
  "a zero-width space": "a\u200bb",
  "a byte order mark": "\ufeffa",
  "a text direction override": "a\u202eb",
  "tags without a flag": "a\u{E0067}\u{E0062}\u{E007F}",
  "tags that do not end": "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}",
  "a control character": "\u{1F468}\u001b\u{1F469}",
};
test.each(Object.entries(unseen))(
  "a label may not have %s",
  async (_, text) => {
    expect(await desk.run("keys", "create", "--account", "alice", "--label", text)).toEqual({
      status: 2,
      stdout: "",
      stderr: expect.stringContaining("Write 1 to 128 printable characters"),
    });
  },
  20_000,
);
