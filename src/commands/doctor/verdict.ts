/** The result of one check: at least one line, which says what was found and, for a problem, what to do. */
export interface Verdict {
  readonly ok: boolean;
  readonly lines: readonly string[];
}

export function passed(...lines: readonly string[]): Verdict {
  return { ok: true, lines };
}

/** A problem, or something that could not be checked. */
export function failed(...lines: readonly string[]): Verdict {
  return { ok: false, lines };
}

/** Bytes for people, such as `1.5 GB`. */
export function bytesText(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const digits = power === 0 ? 0 : 1;
  return `${(bytes / 1000 ** power).toFixed(digits)} ${units[power]}`;
}
