import text from "../../config.example.toml" with { type: "text" };
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { TomlError, parse } from "smol-toml";
import { systemClock, type Clock } from "../lib/clock.ts";
import { fileErrorReason } from "../lib/systemError.ts";
import { ConfigError, Inspection, checkShape } from "./inspection.ts";
import { interpolate, variablesIn, type Environment } from "./interpolate.ts";
import { readModels } from "./models.ts";
import { readProviders } from "./providers.ts";
import type { Config } from "./schema.ts";
import { readSettings } from "./settings.ts";

export { ConfigError } from "./inspection.ts";
export { ENVIRONMENT_FILE, type Environment } from "./interpolate.ts";

const CONFIG_BYTES_MAX = 16 * 1024 ** 2;
const GROUP_AND_OTHERS = 0o077;
/** What the parser makes of a word without quotes: a number, a date or a value that it does not know. */
const FORGOTTEN_QUOTES = /^(?:illegal character in numeric literal|invalid value)\b/;
/** What it makes of a word behind a value. */
const MORE_THAN_A_VALUE = /^each key-value declaration must be followed by an end-of-line/;
/** Of a line so faulty: its value is a number as people write it, such as `25,000`, `25 000` or `128k`. */
const NUMBER_FOR_PEOPLE = /^[^="'#]*=\s*[+-]?\d[\d._]*(?:,|\s\d|[kK]\b)/;

/** The variables by which the runtime would send requests through a proxy that no config names. */
const PROXY_VARIABLES: readonly string[] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/**
 * Finds, reads and checks the config file: the given path, else $TOLLGATE_CONFIG, else ./config.toml,
 * else /etc/tollgate/config.toml. It reads every file that the config names but changes nothing, so it
 * serves a reload as well. Warnings are one line each; `plainSecrets` names the keys whose secrets stand
 * in the file itself. Throws {@link ConfigError} with every problem at once; no message holds the value of
 * a secret. With `secrets` "unread" whatever is secret is passed over: who administers the store need not
 * have the keys of the providers. Its variables are those of `environment`, else of the process as it is now. What is
 * dated, a certificate, is held against the clock.
 */
export function loadConfig(options: {
  path?: string | undefined;
  secrets?: "read" | "unread";
  environment?: Environment | undefined;
  clock?: Clock;
}): {
  config: Config;
  warnings: readonly string[];
  plainSecrets: readonly string[];
} {
  const file = findFile(options.path);
  const whole = parseToml(file, readText(file));
  const tree = options.secrets === "unread" ? withoutSecrets(whole) : whole;
  const clock = options.clock ?? systemClock;
  const inspection = new Inspection(dirname(file), clock.epochMs());
  const sound = checkShape(
    interpolate(tree, options.environment ?? process.env, inspection),
    inspection,
  );
  const settings = readSettings(sound, inspection);
  const providers = readProviders(sound, inspection);
  const models = readModels(sound, providers, inspection);
  if (inspection.problems.length > 0) throw new ConfigError(inspection.problems);
  if (models.length === 0) inspection.warning(file, "has no [[models]]: no request can be served");
  warnAboutReaders(file, inspection);
  const { warnings, plainSecrets } = inspection;
  return { config: { file, ...settings, providers, models }, warnings, plainSecrets };
}

/**
 * What a config that {@link loadConfig} found sound needs besides itself: the environment variables that
 * it names, and the files whose names stand in it, absolute. Throws {@link ConfigError} when it is gone.
 */
export function readReferences(file: string): {
  readonly variables: readonly string[];
  readonly files: readonly string[];
} {
  const tree = parseToml(file, readText(file));
  const files = secretFilesIn(tree).filter((path) => path !== "" && !path.includes("${"));
  return { variables: variablesIn(tree), files: files.map((path) => resolve(dirname(file), path)) };
}

/**
 * Refuses an environment that changes the runtime behind the config's back. Throws {@link ConfigError}
 * when the verification of certificates is switched off or options are slipped to the runtime.
 */
export function checkEnvironment(): void {
  const problems: string[] = [];
  if (process.env["NODE_TLS_REJECT_UNAUTHORIZED"] === "0") {
    problems.push(
      "NODE_TLS_REJECT_UNAUTHORIZED: 0 accepts any certificate; unset it, and set ca_file for a provider with a private certificate authority",
    );
  }
  if ((process.env["BUN_OPTIONS"] ?? "") !== "") {
    problems.push("BUN_OPTIONS: it can run other code inside this program; unset it");
  }
  if (problems.length > 0) throw new ConfigError(problems);
}

/**
 * Makes the runtime forget the environment's proxies: only a provider's own `proxy` counts. To be called once, at the
 * start. Returns the environment as it was before, for a config that names one of them.
 */
export function forgetProxyEnvironment(): Environment {
  const before = { ...process.env };
  for (const name of PROXY_VARIABLES) {
    delete process.env[name];
    delete process.env[name.toLowerCase()];
  }
  return before;
}

function findFile(given: string | undefined): string {
  const named = given ?? (process.env["TOLLGATE_CONFIG"] || undefined);
  if (named !== undefined) return resolve(named);
  const found = ["config.toml", "/etc/tollgate/config.toml"].find((path) => existsSync(path));
  if (found !== undefined) return resolve(found);
  throw new ConfigError([
    "no config: neither ./config.toml nor /etc/tollgate/config.toml exists; `tollgate init` creates one, --config or TOLLGATE_CONFIG names another",
  ]);
}

function readText(file: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    const reason = fileErrorReason(error);
    const advice = reason === "no such file" ? `; \`tollgate init ${file}\` creates it` : "";
    throw new ConfigError([`${file}: cannot be read: ${reason}${advice}`], { cause: error });
  }
  if (bytes.length > CONFIG_BYTES_MAX) throw new ConfigError([`${file}: is larger than 16MB`]);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new ConfigError([`${file}: is not UTF-8: save the file as UTF-8`], { cause: error });
  }
}

/** The parser's message ends with the lines around the fault, which may hold a secret: only its first line is kept, and no cause. */
function parseToml(file: string, text: string): unknown {
  try {
    return parse(text, { integersAsBigInt: true, maxDepth: 100 });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const what = (error.message.split("\n")[0] ?? "").replace(/^Invalid TOML document: /, "");
    const line = text.split("\n")[error.line - 1] ?? "";
    throw new ConfigError([
      `${file}: line ${error.line}, column ${error.column}: ${what}${adviceOn(what, line)}`,
    ]);
  }
}

function adviceOn(what: string, line: string): string {
  const isUnquoted = FORGOTTEN_QUOTES.test(what);
  if ((isUnquoted || MORE_THAN_A_VALUE.test(what)) && NUMBER_FOR_PEOPLE.test(line)) {
    return " (write a number with digits only, such as 25000)";
  }
  return isUnquoted ? " (write text in quotes)" : "";
}

function warnAboutReaders(file: string, inspection: Inspection): void {
  // Windows has no such modes: there every file looks readable.
  if (inspection.plainSecrets.length === 0 || process.platform === "win32") return;
  if ((statSync(file).mode & GROUP_AND_OTHERS) === 0) return;
  inspection.warning(
    file,
    `is readable by other users and contains ${inspection.plainSecrets.join(", ")}: chmod 600 it, or use \${NAME} or api_key_file`,
  );
}

/** The commented config that a new installation starts from. It names every key, with its default and unit. */
export function exampleConfig(): string {
  // The runtime's types know a .toml file only as a parsed one.
  return String(text);
}

/** What only a serving gateway needs: it is often set in the environment of the service alone, or readable to it alone. */
const SERVER_KEYS = new Set(["tls_cert", "tls_key"]);
const PROVIDER_KEYS = new Set(["api_key", "api_key_file", "headers", "proxy", "ca_file"]);

/** Those of both whose value is the name of a file. */
const FILE_KEYS = new Set(["tls_cert", "tls_key", "api_key_file", "ca_file"]);

/** A copy of a parsed TOML tree without its secrets and the files they are in. */
function withoutSecrets(tree: unknown): unknown {
  if (!isTable(tree)) return tree;
  const { server, providers } = tree;
  return {
    ...tree,
    ...(isTable(server) ? { server: omit(server, SERVER_KEYS) } : {}),
    ...(Array.isArray(providers)
      ? {
          providers: providers.map((one: unknown) =>
            isTable(one) ? omit(one, PROVIDER_KEYS) : one,
          ),
        }
      : {}),
  };
}

/** The names of the files that {@link withoutSecrets} passes over, as they stand in the tree. */
function secretFilesIn(tree: unknown): readonly string[] {
  if (!isTable(tree)) return [];
  const { server, providers } = tree;
  const listed: readonly unknown[] = Array.isArray(providers) ? providers : [];
  return [server, ...listed]
    .filter(isTable)
    .flatMap((table) => [...FILE_KEYS].map((key) => table[key]))
    .filter((value) => typeof value === "string");
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date)
  );
}

function omit(
  table: Readonly<Record<string, unknown>>,
  keys: ReadonlySet<string>,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(table).filter(([key]) => !keys.has(key)));
}
