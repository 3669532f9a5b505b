/**
 * Who holds the advisory lock of this number does the work alone, on the whole database and until its transaction ends. The
 * numbers have no meaning. All versions that run beside each other must have the same.
 */
export const LOCKS = {
  /** One process migrates at a time. */
  migration: 7_035_401,
  /** Only one replica folds at a time. */
  folding: 7_035_402,
  /** One change of a command at a time, as with SQLite's one writer. */
  change: 7_035_403,
} as const;
