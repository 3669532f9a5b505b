import { closeSync, openSync, readdirSync, readFileSync, statSync } from "node:fs";
import { errorCode } from "./systemError.ts";

const OWN = "/proc/self/fd";

/** Whether the process may open one more file or connection. */
export function hasFreeDescriptor(): boolean {
  try {
    closeSync(openSync("/dev/null", "r"));
    return true;
  } catch (error) {
    return !["EMFILE", "ENFILE"].includes(errorCode(error) ?? "");
  }
}

/** The most descriptors that the process may have; undefined where the system does not tell. Bun raises the limit to the hard one. */
export function descriptorsMax(): number | undefined {
  try {
    const [, soft] =
      /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/** How many descriptors the process has. Linux tells it since 6.2 as the size of the folder. Undefined: as many as it may have. */
export function openDescriptors(): number | undefined {
  const { size } = statSync(OWN);
  if (size > 0) return size;
  try {
    return readdirSync(OWN).length;
  } catch {
    // To read the folder takes a descriptor.
    return undefined;
  }
}
