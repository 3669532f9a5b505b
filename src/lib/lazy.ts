/** Returns a function that calls `make` once, at its first call. */
export function lazy<Value>(make: () => Value): () => Value {
  let made: { value: Value } | undefined;
  return () => (made ??= { value: make() }).value;
}

/**
 * Returns an object whose members are the results of these functions. Each function is called once, at the first read
 * of its name.
 */
export function lazyParts<Parts extends object>(makers: {
  readonly [Name in keyof Parts]: () => Parts[Name];
}): Parts {
  const parts = {};
  for (const [name, make] of Object.entries<() => unknown>(makers))
    Object.defineProperty(parts, name, { get: lazy(make), enumerable: true });
  return parts as Parts;
}
