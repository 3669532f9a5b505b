/**
 * The numbers of advisory locks. The process that holds one does its work alone on the whole database until its
 * transaction ends. The numbers have no meaning. All versions that run beside each other must use the same numbers.
 */
export const LOCKS = {
  /** One process migrates at a time. */
  migration: 7_035_401,
  /** Only one replica folds at a time. */
  folding: 7_035_402,
  /** One change of a command at a time, as with SQLite's one writer. */
  change: 7_035_403,
} as const;
