import { readFileSync } from "node:fs";
import type { Inspection } from "./inspection.ts";
import { refusalOf } from "../lib/errorCode.ts";

const NAMED_FILE_BYTES_MAX = 1024 ** 2;

/**
 * The text of a file that the config names under `key`; undefined, and a problem, when it cannot be read.
 * The path is not repeated in the problem: someone may have pasted a secret where its file's name belongs.
 */
export function readNamedFile(
  inspection: Inspection,
  key: string,
  path: string,
): string | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(inspection.absolutePath(path));
  } catch (error) {
    inspection.problem(
      key,
      `its file cannot be read: ${refusalOf(error)} (a relative path starts at the config's folder)`,
    );
    return undefined;
  }
  if (bytes.length <= NAMED_FILE_BYTES_MAX) return bytes.toString("utf8");
  inspection.problem(key, "its file is larger than 1MB: name another");
  return undefined;
}
