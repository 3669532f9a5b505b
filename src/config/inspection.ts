import { resolve } from "node:path";
import type { TSchema } from "@sinclair/typebox";
import { Errors, ValueErrorType, type ValueError } from "@sinclair/typebox/errors";
import { nearest } from "../lib/nearest.ts";
import { ConfigFile } from "./schema.ts";

/** What the templates of other programs have where a secret belongs, such as `$NAME`, `{{NAME}}`, `%NAME%`, `<your key>`. */
const UNFILLED =
  /(?:^|\s)(?:\$[A-Z_][A-Z0-9_]*|\$\(\w+\)|\{\w+\}|\{\{\s*[\w.]+\s*\}\}|%\w+%|<[^<>]+>)$/;

/** A config that cannot be used. It carries every problem at once, each one line; none holds the value of a secret. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join("\n"), options);
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/**
 * What the parts of one load share: where the file lies, which values came from the environment, and
 * what was found wrong. Only the first problem of a key is kept: those after it are mostly its consequences.
 */
export class Inspection {
  readonly warnings: string[] = [];
  /** The keys of secrets that stand in the file itself. */
  readonly plainSecrets: string[] = [];
  readonly #problems = new Map<string, string>();
  readonly #fromEnvironment = new Set<string>();
  readonly #folder: string;
  /** When it is done, in ms since 1970: what is dated is held against it. */
  readonly nowMs: number;

  /** @param folder the config file's own: relative paths start there. */
  constructor(folder: string, nowMs: number) {
    this.#folder = folder;
    this.nowMs = nowMs;
  }

  /** Each as one line, sorted by key, so that those of one table stand together. */
  get problems(): readonly string[] {
    const order = new Intl.Collator("en", { numeric: true });
    const keys = [...this.#problems.keys()].sort((one, other) => order.compare(one, other));
    return keys.map((key) => `${key}: ${this.#problems.get(key)}`);
  }

  problem(key: string, text: string): void {
    if (!this.#problems.has(key)) this.#problems.set(key, text);
  }

  warning(key: string, text: string): void {
    this.warnings.push(`${key}: ${text}`);
  }

  markFromEnvironment(key: string): void {
    this.#fromEnvironment.add(key);
  }

  /** Notes a secret, unless it came from the environment. */
  markSecret(key: string, secret: string): void {
    if (this.#fromEnvironment.has(key)) return;
    this.plainSecrets.push(key);
    if (UNFILLED.test(secret)) {
      this.warning(
        key,
        "looks like a variable or a placeholder, and is sent as written: write an environment variable as ${NAME}",
      );
    }
  }

  /** A name, quoted for a message; without its text where it came from the environment and could be a secret. */
  quote(key: string, name: string): string {
    return this.#fromEnvironment.has(key) ? "(from the environment)" : printable(name);
  }

  /** Reports an id that another table has already; `seen` keeps which table, such as `models[0]`, claimed which one. */
  claimId(id: string, at: string, seen: Map<string, string>): void {
    const key = `${at}.id`;
    const first = seen.get(id);
    if (first === undefined) seen.set(id, at);
    else this.problem(key, `${this.quote(key, id)} is already the id of ${first}`);
  }

  absolutePath(path: string): string {
    return resolve(this.#folder, path);
  }
}

/** `server` and `listen` make `server.listen`; a name that TOML would want in quotes gets them. */
export function joinKey(parent: string, name: string): string {
  const bare = /^[A-Za-z0-9_-]{1,64}$/.test(name) ? name : printable(name);
  return parent === "" ? bare : `${parent}.${bare}`;
}

/** In quotes, on one line and not long, whatever it holds. */
function printable(name: string): string {
  const short = name.length > 64 ? `${name.slice(0, 64)}...` : name;
  const escaped = JSON.stringify(short);
  return escaped.replace(/[^\x20-\x7e]/gu, (character) =>
    /[\p{C}\p{Z}]/u.test(character) ? "?" : character,
  );
}

/** A value that has the shape of `T` as far as it goes: what was missing or wrong is undefined. */
export type DeepPartial<T> = T extends readonly (infer Item)[]
  ? readonly (DeepPartial<Item> | undefined)[]
  : T extends object
    ? { readonly [Key in keyof T]?: DeepPartial<T[Key]> | undefined }
    : T;

export type ProviderFile = NonNullable<NonNullable<DeepPartial<ConfigFile>["providers"]>[number]>;
export type ModelFile = NonNullable<NonNullable<DeepPartial<ConfigFile>["models"]>[number]>;

/**
 * Checks a parsed file against the schema and reports every problem. It returns the same tree with each
 * wrong value taken out, so that what is sound can still be judged in the same run.
 */
export function checkShape(tree: unknown, inspection: Inspection): DeepPartial<ConfigFile> {
  // The errors are found while they are asked for, and the tree is changed below: so all of them first.
  const errors = Array.from(Errors(ConfigFile, tree));
  for (const error of errors) {
    const place = locate(tree, error.path);
    inspection.problem(place.key, describe(error, place));
    if (error.type !== ValueErrorType.ObjectAdditionalProperties) place.clear();
  }
  // The schema has just vouched for every value that is left.
  return tree as DeepPartial<ConfigFile>;
}

function describe({ type, schema }: ValueError, { key, name }: Place): string {
  if (type === ValueErrorType.ObjectAdditionalProperties) return describeUnknown(name, schema);
  if (type === ValueErrorType.ObjectRequiredProperty) return `is required: ${schema.description}`;
  if (type === ValueErrorType.StringMaxLength) {
    return `must have at most ${schema["maxLength"]} characters`;
  }
  if (type === ValueErrorType.ArrayMaxItems) {
    return `must have at most ${schema["maxItems"]} items`;
  }
  const isSection = type === ValueErrorType.Object && key === name;
  return `must be ${schema.description}${isSection ? `: write [${name}]` : ""}`;
}

function describeUnknown(name: string, schema: TSchema): string {
  const properties: unknown = schema["properties"];
  const known =
    typeof properties === "object" && properties !== null ? Object.keys(properties) : [];
  const meant = nearest(name, known);
  if (meant !== undefined) return `unknown key; did you mean ${meant}?`;
  return `unknown key; the keys here are ${known.join(", ")}`;
}

interface Place {
  /** As the operator writes it: `providers[0].base_url`. */
  readonly key: string;
  /** Its last part. */
  readonly name: string;
  /** Makes the value undefined. */
  clear(): void;
}

/** Follows a JSON pointer, which is how the schema's errors name their place, into the tree. */
function locate(tree: unknown, pointer: string): Place {
  const names = pointer.split("/").slice(1);
  let key = "";
  let name = "";
  let value = tree;
  let clear = () => {};
  for (const escaped of names) {
    name = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
    const holder: unknown = value;
    key = Array.isArray(holder) ? `${key}[${name}]` : joinKey(key, name);
    value = typeof holder === "object" && holder !== null ? Reflect.get(holder, name) : undefined;
    const last = name;
    clear = () => {
      if (typeof holder !== "object" || holder === null) return;
      Object.defineProperty(holder, last, { value: undefined, configurable: true, writable: true });
    };
  }
  return { key, name, clear };
}
