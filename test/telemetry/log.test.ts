import { expect, test } from "bun:test";
import { createLog } from "../../src/telemetry/log.ts";

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
