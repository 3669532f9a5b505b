import {
  computed,
  signal,
  useSignalEffect,
  type ReadonlySignal,
  type Signal,
} from "@preact/signals";
import { useMemo } from "preact/hooks";

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
function changeQuery(changes: PlaceQuery): void {
  const { path, query } = place.peek();
  replaceFragment(hrefOf(path, { ...query, ...changes }));
}

/**
 * A setting of the view that is shown, kept in the address under `name`. With `choices`, the first of them is the default,
 * and anything else counts as the default.
 */
export function useSetting<Value extends string>(
  name: string,
  choices: readonly [Value, ...Value[]],
): Signal<Value>;
export function useSetting(name: string, choices?: readonly string[]): Signal<string>;
export function useSetting(name: string, choices?: readonly string[]): Signal<string> {
  const read = (): string => {
    const value = place.peek().query[name] ?? "";
    return choices && !choices.includes(value) ? (choices[0] ?? "") : value;
  };
  const [setting, here] = useMemo(() => [signal(read()), hrefOf(place.peek().path)], []);
  const isHere = (): boolean => hrefOf(place.value.path) === here;
  useSignalEffect(() => {
    if (isHere()) setting.value = read();
  });
  useSignalEffect(() => {
    const value = setting.value;
    if (hrefOf(place.peek().path) === here)
      changeQuery({ [name]: value === choices?.[0] ? "" : value });
  });
  return setting;
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
