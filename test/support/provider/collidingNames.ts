/**
 * Names of sixteen characters that all have one hash in JavaScriptCore: their first eight bytes are a constant of its
 * hash, which wipes out all that was before the last sixteen, and those are the same in all of them. `series`
 * makes others of the same hash.
 */
export function collidingNames(count: number, series = 0): string[] {
  const constant = "\ud4a3\ud433\ua62e\u4b33";
  return Array.from({ length: count }, (_, at) => {
    const own = [series, at % 64, (at >> 6) % 64, at >> 12].map((digit) => 0x4e00 + digit);
    return `${constant}${String.fromCharCode(...own)}${"\u4e11".repeat(8)}`;
  });
}
