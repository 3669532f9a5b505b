import { statSync, type Stats } from "node:fs";

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
