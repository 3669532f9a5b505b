/** A route of the server. Its path ends in `*` if its last parameter may contain slashes. */
interface Route {
  readonly method: string;
  readonly path: string;
  readonly hooks: { readonly endpoint?: string };
}

/** What the server knows of a path. */
export interface KnownPath {
  /** The value of the header `allow`. */
  readonly methods: string;
  readonly endpoint: string;
}

/** Undefined if the server has no such path. */
export type PathFinder = (path: string) => KnownPath | undefined;

/** The label of every path outside the API. */
export const OTHER_ENDPOINT = "other";

export function pathFinder(routes: readonly Route[]): PathFinder {
  const known = new Map<string, KnownPath>();
  for (const [path, ofPath] of Map.groupBy(routes, (route) => route.path)) {
    const names = ofPath.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
    const endpoint = ofPath.find(({ hooks }) => hooks.endpoint !== undefined)?.hooks.endpoint;
    known.set(path, {
      methods: [...names, "OPTIONS"].join(", "),
      endpoint: endpoint ?? OTHER_ENDPOINT,
    });
  }
  const parents = [...known.keys()].filter((path) => path.endsWith("/*"));
  return (path) => {
    const parent = parents.find((pattern) => path.startsWith(pattern.slice(0, -1)));
    return known.get(path) ?? (parent === undefined ? undefined : known.get(parent));
  };
}
