import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { isWellFormedKey } from "../../../src/auth/apiKey.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";

const HOUR_MS = 3_600_000;

interface KeyAnswer {
  readonly id: string;
  readonly key: string;
  readonly expires_at: string | null;
}

let cli: CliFolder;
beforeEach(async () => {
  cli = await openCliFolder();
});
afterEach(() => cli.remove());

const create = async (...flags: readonly string[]): Promise<KeyAnswer> =>
  (await cli.json("keys", "create", "--account", "alice", ...flags)) as KeyAnswer;
const rotate = async (...args: readonly string[]): Promise<KeyAnswer> =>
  (await cli.json("keys", "rotate", ...args)) as KeyAnswer;
const show = async (id: string): Promise<KeyAnswer> =>
  (await cli.json("keys", "show", id)) as KeyAnswer;

/** Whether the time is this far from now, apart from the duration of a command. */
function expectIn(time: string | null, lengthMs: number, before: number): void {
  const leftMs = Date.parse(String(time)) - before;
  expect(leftMs).toBeGreaterThanOrEqual(lengthMs);
  expect(leftMs).toBeLessThan(lengthMs + 60_000);
}

describe("keys rotate", () => {
  test("returns the same form as create and the replaced id, and copies the settings", async () => {
    const settings = ["--label", "laptop", "--rpm", "5", "--models", "gi*", "--budget", "7"];
    const old = await create(...settings);
    const next = await rotate(old.id);
    expect(next).toEqual({
      ...old,
      id: expect.stringMatching(/^key_[0-9a-z]{20}$/),
      key: expect.stringMatching(/^sk-tg-[0-9A-Za-z]{49}$/),
      prefix: next.key.slice(0, 12),
      created_at: expect.any(String),
      created_account: false,
      replaces: old.id,
    } as unknown as KeyAnswer);
    expect([next.id, next.key]).not.toContain(old.id);
    expect(next.key).not.toBe(old.key);
    expect(isWellFormedKey(next.key)).toBe(true);
    const {
      replaces: _,
      created_account: __,
      key: ___,
      ...element
    } = next as KeyAnswer & {
      replaces: string;
      created_account: boolean;
    };
    expect(await show(next.id)).toEqual(element as KeyAnswer);
  }, 60_000);

  test("keeps the old key valid for a day or for --grace, but not beyond its expiry", async () => {
    const [first, second] = [await create(), await create("--expires", "10d")];
    const before = Date.now();
    expect((await rotate(first.id)).expires_at).toBeNull();
    expectIn((await show(first.id)).expires_at, DAY_MS, before);
    const next = await rotate(second.id, "--grace", "20d");
    expect(next.expires_at).toBe(second.expires_at);
    expect((await show(second.id)).expires_at).toBe(second.expires_at);
    const third = await rotate(next.id, "--grace", "1h");
    expect(third.expires_at).toBe(second.expires_at);
    expectIn((await show(next.id)).expires_at, HOUR_MS, before);
  }, 60_000);

  test("prints the new key on a separate line, and the time until which the old one works", async () => {
    const old = await create();
    const { stdout, stderr } = await cli.run("keys", "rotate", old.id);
    const lines = stdout.split("\n");
    const { expires_at: until } = await show(old.id);
    expect(lines[0]).toBe(`${old.id} works until ${until?.slice(0, 19)}Z`);
    expect(lines[1]).toMatch(/^created key_[0-9a-z]{20} for account alice\. Store the key now/);
    expect(lines.filter(isWellFormedKey)).toHaveLength(1);
    expect(stderr).toBe("");
    const id = /key_[0-9a-z]{20}/.exec(lines[1] ?? "")?.[0] ?? "";
    const last = await cli.run("keys", "rotate", id, "--grace", "0s");
    expect(last.stdout).toStartWith(`${id} no longer works\n`);
    expect((await cli.run("keys", "list")).stdout).toMatch(new RegExp(`${id} .* expired `));
    expect((await cli.run("keys", "show", old.id)).stdout).toMatch(/^replaced by +key_/m);
  }, 60_000);

  test("refuses a rotated or revoked key with one line of advice, and changes nothing", async () => {
    const old = await create();
    const next = await rotate(old.id);
    const before = await cli.json("keys", "list");
    expect(await cli.run("keys", "rotate", old.id, "--grace", "0s")).toEqual({
      status: 1,
      stdout: "",
      stderr: `error: key ${old.id} was rotated before, and ${next.id} replaces it: tollgate keys rotate ${next.id}`,
    });
    expect(await cli.json("keys", "list")).toEqual(before);
    await cli.run("keys", "revoke", next.id);
    const { status, stderr } = await cli.run("keys", "rotate", next.id);
    expect(status).toBe(1);
    expect(stderr).toBe(
      `error: key ${next.id} is revoked for ever: tollgate keys create --account alice issues another`,
    );
  }, 60_000);

  test("of one key by concurrent commands happens once", async () => {
    const old = await create();
    const runs = await Promise.all(
      Array.from({ length: 3 }, () => cli.run("keys", "rotate", old.id)),
    );
    expect(runs.map(({ status }) => status).sort((a, b) => a - b)).toEqual([0, 1, 1]);
    expect(await cli.json("keys", "list")).toHaveLength(2);
    expect(await cli.json("audit")).toMatchObject({ ok: true });
  }, 60_000);
});
