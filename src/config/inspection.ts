import { resolve } from "node:path";

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
        "looks like a variable or a gap to fill, and is sent as it stands: an environment variable is written ${NAME}",
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
