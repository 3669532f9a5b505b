import { statSync } from "node:fs";
import { errorCode } from "../lib/errorCode.ts";

/** Which file lay at a path when it was opened. */
export interface OpenedFile {
  /** Whether another, or none, lies there now: what is written then goes to a file that nobody finds again. */
  isReplaced(): boolean;
}

/**
 * To be called before the file is opened. If `isReplaced` says no after that, the opened file is the one at the path;
 * as long as it is open, no other file gets its inode.
 */
export function openedFile(path: string): OpenedFile {
  const opened = identityOf(path);
  return {
    isReplaced() {
      try {
        return identityOf(path) !== opened;
      } catch (error) {
        const code = errorCode(error);
        // Any other failure says nothing of the file.
        return code === "ENOENT" || code === "ENOTDIR";
      }
    },
  };
}

function identityOf(path: string): string {
  const { dev, ino } = statSync(path, { bigint: true });
  return `${dev}:${ino}`;
}
