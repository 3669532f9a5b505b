import { closeSync, openSync, readdirSync, readFileSync, type Stats, statSync } from "node:fs";

/** The code of an error of the system or the runtime, such as `ENOENT`; undefined if it has none. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "no such file",
  ENOTDIR: "no such file",
  EACCES: "permission denied",
  EPERM: "permission denied",
  EISDIR: "it is a folder",
  EEXIST: "that name is taken",
  ENAMETOOLONG: "its name is too long",
  ENOSPC: "no room left on its disk",
  EDQUOT: "no room left on its disk",
  EROFS: "its disk is read-only",
};

/** The reason of a failed file operation in words, without the path. */
export function fileErrorReason(error: unknown): string {
  const code = errorCode(error) ?? "unknown";
  return reasons[code] ?? `error ${code}`;
}

/** The status of a path after links; undefined if it does not exist; a `fileErrorReason` if it cannot be read. */
export function pathStatus(path: string): Stats | string | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    return errorCode(error) === "ENOTDIR" ? undefined : fileErrorReason(error);
  }
}

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

/**
 * How many descriptors the process has. Linux shows the number as the size of the folder since 6.2. Undefined: as many
 * as it may have.
 */
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
