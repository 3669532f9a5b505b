/** A bug: an invariant of our own code does not hold. */
class AssertionError extends Error {
  override readonly name = "AssertionError";
}

/** Also runs in production: a wrong charge is worse than a failed request. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
