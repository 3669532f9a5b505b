import { StoreError } from "./sqlite.ts";
import { refusalOf } from "../lib/errorCode.ts";

/** Runs `work`; what the system refuses becomes a StoreError that begins with `what` and says why. */
export function orStoreError<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError(`${what}: ${refusalOf(cause)}`, { cause });
  }
}
