import { statSync, type Stats } from "node:fs";
import { errorCode, refusalOf } from "./errorCode.ts";

/** What lies at a path, links followed. Undefined: nothing does. A text: why it cannot be told, as `refusalOf` says it. */
export function pathStatus(path: string): Stats | string | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    return errorCode(error) === "ENOTDIR" ? undefined : refusalOf(error);
  }
}
