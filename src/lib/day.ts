/** A day of UTC, which has no leap seconds as computers count. */
export const DAY_MS = 86_400_000;
