import { describe, expect, test } from "bun:test";
import { Deadline, Deadlines, systemClock } from "../../../src/lib/clock.ts";
import { readIssuedKey } from "../../../src/providers/keys/issuedKey.ts";
import { runKeyCommand } from "../../../src/providers/keys/keyCommand.ts";
import { until } from "../../support/until.ts";

const nowMs = Date.parse("2026-11-30T10:00:00Z");
const hour = 3_600_000;

describe("what a command writes", () => {
  test.each<[string, string, number | undefined]>([
    ["ya29.key\n", "ya29.key", undefined],
    ["  key-with/+=._~  \r\n", "key-with/+=._~", undefined],
    // az account get-access-token
    [
      '{"accessToken":"key","expiresOn":"2026-11-30 12:00:00.000000","expires_on":1796036400}',
      "key",
      hour,
    ],
    // yc iam create-token --format json
    ['{"iam_token":"key","expires_at":"2026-11-30T11:00:00.123456789Z"}', "key", hour + 123],
    // gcloud config config-helper --format=json
    ['{"credential":{"access_token":"key","token_expiry":"2026-11-30T11:00:00Z"}}', "key", hour],
    // kubectl's credential helpers
    [
      '{"kind":"ExecCredential","status":{"token":"key","expirationTimestamp":"2026-11-30T11:00:00Z"}}',
      "key",
      hour,
    ],
    ['{"access_token":"key","expires_in":3600,"token_type":"Bearer"}', "key", hour],
    ['{"access_token":"key","expires_at":1796036400000}', "key", hour],
    ['{"token":"key"}', "key", undefined],
  ])("%j is a key with its time", (output, key, lifetimeMs) =>
    expect(readIssuedKey(output, nowMs)).toEqual({ key, lifetimeMs }),
  );

  test.each([
    ["", "what it wrote is no key"],
    ["two words", "what it wrote is no key"],
    ["two\nlines", "what it wrote is no key"],
    ["ключ", "what it wrote is no key"],
    ["{}", "what it wrote is no key"],
    ['{"token":7}', "what it wrote is no key"],
    ['{"token":"a b"}', "what it wrote is no key"],
    ["{canary", "what it wrote is no key and no JSON"],
    [
      '{"token":"key","expires_at":"2026-11-30T09:00:00Z"}',
      "the key that it wrote has expired: check the clock of this machine",
    ],
  ])("%j is refused", (output, problem) =>
    expect(() => readIssuedKey(output, nowMs)).toThrow(problem),
  );
});

describe("a command", () => {
  const run = (command: readonly string[], deadlines = new Deadlines(systemClock)) =>
    runKeyCommand(command, deadlines, new AbortController().signal);

  test("gets its arguments as they stand", async () => {
    expect(await run(["printf", "%s", "$HOME;`id`"])).toEqual({
      key: "$HOME;`id`",
      lifetimeMs: undefined,
    });
  });

  test.each([
    [["/no/such/program"], "the command cannot be started: no such file"],
    [["sh", "-c", "echo canary; echo canary >&2; exit 3"], "exit status 3"],
    [["sh", "-c", "kill -9 $$"], "the command was ended by SIGKILL"],
    [["sh", "-c", "yes canary-canary-canary"], "the command wrote more than 65536 bytes"],
  ])("%j fails in words without its output", async (command, problem) => {
    const failure = await run(command).then(String, String);
    expect(failure).toContain(problem);
    expect(failure).not.toContain("canary");
  });

  test("that takes longer than half a minute is killed, with what it started", async () => {
    let aheadMs = 0;
    const deadlines = new Deadlines({
      ...systemClock,
      monotonicMs: () => systemClock.monotonicMs() + aheadMs,
    });
    const mark = `618${process.pid}`;
    const failure = run(["sh", "-c", `sleep ${mark} & sleep ${mark}`], deadlines).then(
      String,
      String,
    );
    const running = () =>
      Bun.spawnSync(["pgrep", "-f", `^sleep ${mark}`])
        .stdout.toString()
        .split("\n").length - 1;
    await until("both sleep", () => running() === 2);
    aheadMs = 31_000;
    // The timers of a moved clock are set again.
    new Deadline(deadlines, () => {}).set(1);
    expect(await failure).toContain("the command did not end within 30 s");
    await until("both are gone", () => running() === 0);
  });

  test("ends with the gateway", async () => {
    const closing = new AbortController();
    const failure = runKeyCommand(
      ["sleep", "600"],
      new Deadlines(systemClock),
      closing.signal,
    ).then(String, String);
    closing.abort();
    expect(await failure).toContain("the gateway stops");
  });
});
