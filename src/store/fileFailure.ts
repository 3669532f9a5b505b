import { failureOf } from "../config/files.ts";
import { StoreError } from "./sqlite.ts";
import { errorCode } from "../lib/errorCode.ts";

/** Does it; what the system refuses becomes a StoreError that begins with `what` and says why. */
export function attempt<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError(`${what}: ${reasonOf(cause)}`, { cause });
  }
}

/** Why the system refused, in words. */
export function reasonOf(error: unknown): string {
  switch (errorCode(error) ?? "") {
    case "ENOSPC":
    case "EDQUOT":
      return "no room left on its disk";
    case "EROFS":
      return "its disk is read-only";
    case "EEXIST":
      return "that name is taken";
    default:
      return failureOf(error);
  }
}
