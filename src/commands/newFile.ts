import { rmSync, writeFileSync } from "node:fs";
import { CommandFailure } from "./failure.ts";
import { errorCode, refusalOf } from "../lib/errorCode.ts";

/**
 * Writes a file that does not exist yet, or nothing: what stands there is never changed, also not through
 * a link. Throws CommandFailure, which says what to do; `whenDenied` is its advice to who may not write there.
 */
export function writeNewFile(
  file: string,
  text: string,
  { mode, whenDenied }: { readonly mode: number; readonly whenDenied?: string },
): void {
  try {
    writeFileSync(file, text, { flag: "wx", mode });
  } catch (cause) {
    const code = errorCode(cause) ?? "unknown";
    // Only here was the file made, and half of it must not stay: a full disk is the usual cause.
    if (isFailureOfWriting(code)) rmSync(file, { force: true });
    throw new CommandFailure(`${file}: ${reason(cause, whenDenied)}`, { cause });
  }
}

function isFailureOfWriting(code: string): boolean {
  return ["ENOSPC", "EDQUOT", "EFBIG", "EIO"].includes(code);
}

function reason(cause: unknown, whenDenied: string | undefined): string {
  switch (errorCode(cause) ?? "") {
    case "EEXIST":
      return "exists already and was not changed: name another file";
    case "ENOENT":
    case "ENOTDIR":
      return "its folder does not exist: make it first";
    case "ENAMETOOLONG":
      return `cannot be written: ${refusalOf(cause)}, give it a shorter one`;
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return ["cannot be written", refusalOf(cause), whenDenied].filter(Boolean).join(": ");
    default:
      return `cannot be written: ${refusalOf(cause)}`;
  }
}
