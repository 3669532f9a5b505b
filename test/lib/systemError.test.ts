import { expect, test, afterAll, beforeAll } from "bun:test";
import { fileErrorReason, pathStatus } from "../../src/lib/systemError.ts";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

test.each([
  ["ENOENT", "no such file"],
  ["ENOTDIR", "no such file"],
  ["EACCES", "permission denied"],
  ["EPERM", "permission denied"],
  ["EISDIR", "it is a folder"],
  ["ENOSPC", "no room left on its disk"],
  ["EROFS", "its disk is read-only"],
  ["EIO", "error EIO"],
])("the system's %s is told as: %s", (code, words) => {
  expect(fileErrorReason(Object.assign(new Error("open '/secret/path'"), { code }))).toBe(words);
});

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
