import { describe, expect, test } from "bun:test";
import { createLog, type Log } from "../../src/telemetry/log.ts";

test("a pretty line escapes characters that a terminal interprets or hides", () => {
  let text = "";
  const log = createLog({ level: "info", format: "pretty" }, (lines) => {
    text += lines;
  });
  const unseen = [
    "\u202e",
    "\u200b",
    "\u2066",
    "\u2028",
    "\u2029",
    "\ufeff",
    "\u00ad",
    "\u{e0001}",
  ];
  const controls = ["\u001b[31m", "\u009b", "\u007f", "\n", "\0"];
  const name = `añ${[...unseen, ...controls].join("-")}я`;
  log.info("hello", { account: name, count: 1 });
  log.flush();
  expect(text).toEndWith(" count=1\n");
  expect(text.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  expect(text).toContain("añ");
  const shown = / account=(".*") count=/.exec(text)?.[1] ?? "";
  expect(JSON.parse(shown)).toBe(name);
});

describe.each(["json", "pretty"] as const)("a %s line", (format) => {
  /** The text that these calls write. */
  function textOf(work: (log: Log) => void): string {
    const written: string[] = [];
    const log = createLog({ level: "info", format }, (lines) => written.push(lines));
    work(log);
    expect(written).toEqual([]);
    log.flush();
    expect(written).toHaveLength(1);
    return written.join("");
  }

  test("is written with all lines of its turn, in their order, from the level of the config up", () => {
    const text = textOf((log) => {
      log.debug("hidden");
      log.warn("attempt_failed");
      log.info("second", { count: 2 });
    });
    const words = text.match(/hidden|attempt failed|second|warn|info/g);
    expect(words).toEqual(["warn", "attempt failed", "info", "second"]);
    expect(text.split("\n")).toHaveLength(3);
  });

  test("of a warning or an error has the name of its event", () => {
    const text = textOf((log) => {
      log.warn("attempt_failed", { provider: "openai" });
      log.error("database_unusable");
      log.info("no event");
    });
    expect(text.match(/(?<="?event"?[:=]"?)\w+/g)).toEqual(["attempt_failed", "database_unusable"]);
    expect(text).toContain("the database is not usable");
  });

  test("has at most 256 characters of a text, and no field without a value", () => {
    const fields = { model: "m".repeat(1000), sqlite: undefined, count: 1 };
    const text = textOf((log) => log.info("hello", fields));
    expect(/m{9,}/.exec(text)?.[0]).toHaveLength(256);
    expect(text).not.toContain("sqlite");
    expect(fields.model).toHaveLength(1000);
  });
});

test("a JSON line is one object, whatever its texts contain", () => {
  let text = "";
  const log = createLog({ level: "info", format: "json" }, (lines) => (text += lines));
  const model = 'a"\\\n\u001b\ud800\u2028';
  log.info('said "x"', { request_id: "req_1", model, status: 200, stream: false });
  log.info("bare");
  log.flush();
  const [first, second] = text.split("\n").map((line) => JSON.parse(line || "null") as object);
  const time = expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
  const shown = { request_id: "req_1", model, status: 200, stream: false };
  expect(first).toEqual({ level: "info", time, ...shown, msg: 'said "x"' });
  expect(second).toEqual({ level: "info", time, msg: "bare" });
});
