import { statSync, type Stats } from "node:fs";

/** The code of a failure of the system or the runtime, such as `ENOENT`; undefined where it bears none. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

const refusals: Readonly<Record<string, string>> = {
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

/** Why the system refused to do something with a file, in words and without its path. */
export function fileErrorReason(error: unknown): string {
  const code = errorCode(error) ?? "unknown";
  return refusals[code] ?? `error ${code}`;
}

/** What lies at a path, links followed. Undefined: nothing does. A text: why it cannot be told, as `fileErrorReason` says it. */
export function pathStatus(path: string): Stats | string | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    return errorCode(error) === "ENOTDIR" ? undefined : fileErrorReason(error);
  }
}
