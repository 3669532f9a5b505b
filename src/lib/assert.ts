/** An invariant of our own code does not hold. It is a bug, never a condition of the outside world. */
class AssertionError extends Error {
  override readonly name = "AssertionError";
}

/** Stays on in production: a wrong charge is worse than a failed request. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
