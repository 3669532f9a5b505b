import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { bundlePage, pageNames } from "../../src/http/pages/bundle.ts";

const projectRoot = join(import.meta.dir, "../..");
const COMPRESSED_BYTES_MAX = 88 * 1024;

/** Addresses that name something. Nothing is requested from them. */
const names = ["http://www.w3.org/"];

describe.each(pageNames)("the files of the %s", (page) => {
  const files = bundlePage(projectRoot, page);
  const texts = files.then((all) => all.map(({ identity }) => new TextDecoder().decode(identity)));

  test("have at most 88 KB, compressed", async () => {
    const sizes = (await files).map(({ identity }) => gzipSync(identity, { level: 9 }).byteLength);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(COMPRESSED_BYTES_MAX);
  });

  test("name no other site", async () => {
    const addresses = (await texts).flatMap((text) => text.match(/https?:\/\/[\w.-]+[^\s"'`)]*/g));
    expect(
      addresses.filter((found) => found && !names.some((name) => found.startsWith(name))),
    ).toEqual([]);
  });

  test("contain no schema library", async () => {
    for (const text of await texts) expect(text).not.toContain("TypeBox");
  });

  test("make no markup and no code from text", async () => {
    for (const text of await texts)
      expect(text).not.toMatch(/dangerouslySetInnerHTML=|\beval\(|new Function\(/);
  });
});
