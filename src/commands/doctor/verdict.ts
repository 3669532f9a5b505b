/** What one check found, a line each: what is so and, where that is not well, what to do. At least one line. */
export interface Verdict {
  readonly ok: boolean;
  readonly lines: readonly string[];
}

/** All is well. */
export function passed(...lines: readonly string[]): Verdict {
  return { ok: true, lines };
}

/** Something is to be done, or could not be looked at. */
export function failed(...lines: readonly string[]): Verdict {
  return { ok: false, lines };
}

/** For a check that needs to know what the config says. */
export const notLooked = "not checked, because the config cannot be read: correct it first";

/** Bytes as people say them, such as `1.5 GB`. */
export function bytesText(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const digits = power === 0 ? 0 : 1;
  return `${(bytes / 1000 ** power).toFixed(digits)} ${units[power]}`;
}
