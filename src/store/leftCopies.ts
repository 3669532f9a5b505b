import { closeSync, lstatSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../lib/clock.ts";
import { OWNER_ONLY } from "./databaseFile.ts";

const LEFT_NAME = /\.[0-9a-f]{12}\.partial$/;
/** The largest store is copied and verified within minutes, and was just written to until then. */
const LEFT_AFTER_MS = 12 * 3_600_000;
/** https://www.sqlite.org/fileformat2.html#magic_header_string */
const HEADER = "SQLite format 3\0";
/** It may be written last: until then there are zeros. */
const HEADERS = [HEADER, "\0".repeat(HEADER.length)];

/**
 * The copies of a store in a folder that no process can be at any more: one that was killed cannot remove what it had
 * begun. What is not surely such a file is none of them. Never throws.
 */
export function leftCopies(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => LEFT_NAME.test(name))
      .map((name) => join(folder, name))
      .filter(isLeft);
  } catch {
    // Whoever cannot read the folder, or what lies there, learns that from the copy itself.
    return [];
  }
}

function isLeft(path: string): boolean {
  const status = lstatSync(path, { throwIfNoEntry: false });
  return (
    status?.isFile() === true &&
    status.uid === process.getuid?.() &&
    (status.mode & 0o777) === OWNER_ONLY &&
    systemClock.epochMs() - status.mtimeMs > LEFT_AFTER_MS &&
    (status.size === 0 || HEADERS.includes(firstBytes(path)))
  );
}

function firstBytes(path: string): string {
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(HEADER.length);
    return bytes.toString("latin1", 0, readSync(file, bytes));
  } finally {
    closeSync(file);
  }
}
