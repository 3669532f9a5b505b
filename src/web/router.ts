import { computed, signal, type ReadonlySignal } from "@preact/signals";

/** A view of a page and its settings. They are in the fragment of the address, which is never sent: `#/accounts/bob?span=7d`. */
export interface Place {
  /** Decoded, without empty parts: `["accounts", "bob"]`. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

/** Values of a query. Undefined and empty texts are left out. */
export type PlaceQuery = Readonly<Record<string, string | undefined>>;

const fragment = signal(location.hash);
addEventListener("hashchange", () => (fragment.value = location.hash));

/** Where the reader is. */
export const place: ReadonlySignal<Place> = computed(() => placeOf(fragment.value));

/** The address of a view, for a link. */
export function hrefOf(path: readonly string[], query: PlaceQuery = {}): string {
  const given = Object.entries(query).filter((one): one is [string, string] => Boolean(one[1]));
  const search = given.length === 0 ? "" : `?${new URLSearchParams(given).toString()}`;
  return `#/${path.map(encodeURIComponent).join("/")}${search}`;
}

/** Shows another view. The reader can go back. */
export function go(path: readonly string[], query: PlaceQuery = {}): void {
  location.hash = hrefOf(path, query);
}

/** Changes settings of the view that is shown, such as a filter. There is no step back for it. */
export function changeQuery(changes: PlaceQuery): void {
  const { path, query } = place.peek();
  replaceFragment(hrefOf(path, { ...query, ...changes }));
}

/**
 * Takes a secret such as `#key=...` out of the address at once, also out of the history, and returns it. Undefined if the
 * address has none.
 */
export function takeSecret(name: string): string | undefined {
  const prefix = `#${name}=`;
  if (!location.hash.startsWith(prefix)) return undefined;
  const secret = location.hash.slice(prefix.length);
  replaceFragment("#/");
  return secret;
}

function replaceFragment(hash: string): void {
  history.replaceState(null, "", hash);
  fragment.value = hash;
}

function placeOf(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#/, "").split("?");
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
