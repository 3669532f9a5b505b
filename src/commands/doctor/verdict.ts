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
