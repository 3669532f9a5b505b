import { expect, test } from "bun:test";
import { refusalOf } from "../../src/lib/systemError.ts";

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
  expect(refusalOf(Object.assign(new Error("open '/secret/path'"), { code }))).toBe(words);
});
