/** True with TOLLGATE_LONG=1: `bun run prove`, before a release. */
export const isLong = process.env["TOLLGATE_LONG"] === "1";

/** How much of something random or exhaustive a run does. */
export function amount(inCi: number, long: number): number {
  return isLong ? long : inCi;
}

/**
 * So many of the rows, chosen by their names: the choice stays when others are added. In the long form all of them.
 */
export function sample<Row>(
  rows: readonly Row[],
  most: number,
  nameOf: (row: Row) => string = String,
): readonly Row[] {
  if (isLong || rows.length <= most) return rows;
  const order = (row: Row): number => Bun.hash.crc32(nameOf(row));
  const chosen = new Set(rows.toSorted((one, other) => order(one) - order(other)).slice(0, most));
  return rows.filter((row) => chosen.has(row));
}
