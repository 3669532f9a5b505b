import { resolve } from "node:path";

/** A placeholder of another template language, such as `$NAME`, `{{NAME}}`, `%NAME%`, `<your key>`. */
const PLACEHOLDER =
  /(?:^|\s)(?:\$[A-Z_][A-Z0-9_]*|\$\(\w+\)|\{\w+\}|\{\{\s*[\w.]+\s*\}\}|%\w+%|<[^<>]+>)$/;

/** The config has problems: all of them, one line each, without values of secrets. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join("\n"), options);
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/**
 * Collects the problems and warnings of one load. Only the first problem of a key is kept: later ones are mostly its
 * consequences.
 */
export class Inspection {
  readonly warnings: string[] = [];
  /** The keys whose secrets are written in the file itself. */
  readonly plainSecrets: string[] = [];
  readonly #problems = new Map<string, string>();
  readonly #fromEnvironment = new Set<string>();
  readonly #folder: string;
  /** The time of the load, in ms since 1970, to check certificates. */
  readonly nowMs: number;

  /** `folder` is the folder of the config file: relative paths start there. */
  constructor(folder: string, nowMs: number) {
    this.#folder = folder;
    this.nowMs = nowMs;
  }

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

  /** Records a secret, unless it came from the environment. */
  markSecret(key: string, secret: string): void {
    if (this.#fromEnvironment.has(key)) return;
    this.plainSecrets.push(key);
    if (PLACEHOLDER.test(secret)) {
      this.warning(
        key,
        "looks like a variable or a placeholder, and is sent as written: write an environment variable as ${NAME}",
      );
    }
  }

  /** A name in quotes for a message. A value from the environment may be a secret and is not shown. */
  quote(key: string, name: string): string {
    return this.#fromEnvironment.has(key) ? "(from the environment)" : printable(name);
  }

  /** Reports an id that another table has. `seen` maps each id to its table, such as `models[0]`. */
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

/** Joins `server` and `listen` to `server.listen`. A name that TOML requires in quotes gets them. */
export function joinKey(parent: string, name: string): string {
  const bare = /^[A-Za-z0-9_-]{1,64}$/.test(name) ? name : printable(name);
  return parent === "" ? bare : `${parent}.${bare}`;
}

/** Any name in quotes, on one line and cut. */
function printable(name: string): string {
  const short = name.length > 64 ? `${name.slice(0, 64)}...` : name;
  const escaped = JSON.stringify(short);
  return escaped.replace(/[^\x20-\x7e]/gu, (character) =>
    /[\p{C}\p{Z}]/u.test(character) ? "?" : character,
  );
}
