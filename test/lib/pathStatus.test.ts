import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathStatus } from "../../src/lib/systemError.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-"));
  writeFileSync(join(folder, "file"), "five!");
  symlinkSync("file", join(folder, "link"));
  symlinkSync("round", join(folder, "round"));
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each(["file", "link"])("a %s has the status of what it leads to", (name) => {
  expect(pathStatus(join(folder, name))).toMatchObject({ size: 5 });
});

test.each(["absent", "absent/too", "file/below"])("nothing lies at %s", (name) => {
  expect(pathStatus(join(folder, name))).toBeUndefined();
});

test("of what cannot be looked at the reason is told", () => {
  expect(pathStatus(join(folder, "round"))).toBe("error ELOOP");
});
