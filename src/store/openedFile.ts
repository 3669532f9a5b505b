import { statSync } from "node:fs";
import { errorCode } from "../lib/errorCode.ts";

/** Which file lay at a path when it was opened. */
export interface OpenedFile {
  /** Whether another, or none, lies there now: what is written then goes to a file that nobody finds again. */
  isReplaced(): boolean;
}

/** Taken before the file is opened and asked again behind that, it tells which file that was; as long as that is open, no other has its inode. */
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
