import text from "../../config.example.toml" with { type: "text" };
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { systemClock, type Clock } from "../lib/clock.ts";
import { fileErrorReason } from "../lib/systemError.ts";
import { ConfigError, Inspection } from "./inspection.ts";
import { interpolate, variablesIn, type Environment } from "./interpolate.ts";
import {
  readModels,
  warnAboutUnknownContexts,
  warnAboutUnpricedSearches,
  type WrittenModel,
} from "./models.ts";
import { isTable, readTable } from "./option.ts";
import { readPlans } from "./plans.ts";
import { isEmpty } from "./priceLists.ts";
import { readPricing, type Pricing } from "./pricing.ts";
import { readProviders } from "./providers.ts";
import { readPriceEntries } from "./schedules.ts";
import type { Config, Listen } from "./schema.ts";
import { namedFiles, sections, withoutServeOnly } from "./sections.ts";
import { readListen, serverOptions } from "./server.ts";
import { readSettings } from "./settings.ts";
import { parseToml } from "./toml.ts";

export { ConfigError } from "./inspection.ts";
export { ENVIRONMENT_FILE, type Environment } from "./interpolate.ts";

const CONFIG_BYTES_MAX = 16 * 1024 ** 2;
const GROUP_AND_OTHERS = 0o077;
/** Variables that name a proxy for many programs, in upper or lower case. */
const PROXY_VARIABLES: readonly string[] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/**
 * Finds, reads and checks the config file: the given path, else $TOLLGATE_CONFIG, else ./config.toml, else
 * /etc/tollgate/config.toml. It reads every file that the config names and changes nothing. Warnings are one line each.
 * `plainSecrets` are the keys whose secrets are written in the file itself. Throws {@link ConfigError} with all problems;
 * no message has the value of a secret. With `secrets: "unread"` secrets are skipped: commands on the database do not
 * need the keys of the providers. With "notify" only those of [notify] are read. `environment` is the process's by
 * default; `clock` is for the dates of certificates.
 */
export function loadConfig(options: LoadOptions): {
  config: Config;
  warnings: readonly string[];
  plainSecrets: readonly string[];
} {
  return read(options);
}

interface LoadOptions {
  path?: string | undefined;
  secrets?: "read" | "notify" | "unread";
  environment?: Environment | undefined;
  clock?: Clock;
}

/** Prices that are not in force. */
interface DraftPrices {
  /** The text of the file that [pricing] names, instead of what is in it. */
  readonly text: string;
  /** False: models may have no prices. */
  readonly isComplete: boolean;
}

/** The config with other prices. Throws like {@link loadConfig}, without secrets. */
export function loadDraft(
  path: string | undefined,
  draft: DraftPrices,
): {
  readonly config: Config;
  readonly warnings: readonly string[];
  readonly pricing: Pricing;
  /** The ids of the models that have prices in the config itself, or are free. */
  readonly pricedInConfig: ReadonlySet<string>;
} {
  return read({ path, secrets: "unread" }, draft);
}

function read(options: LoadOptions, draft?: DraftPrices) {
  const file = findFile(options.path);
  const fullTree = parseToml(file, readText(file));
  const { secrets = "read" } = options;
  const kept = secrets === "notify" ? "notify" : undefined;
  const tree = secrets === "read" ? fullTree : withoutServeOnly(fullTree, kept);
  const clock = options.clock ?? systemClock;
  const inspection = new Inspection(dirname(file), clock.epochMs());
  const { environment = process.env } = options;
  const written = interpolate(tree, environment, inspection);
  const tables = readTable(sections, isTable(written) ? written : {}, "", inspection);
  const settings = readSettings(tables, inspection);
  const providers = readProviders(tables.providers, inspection);
  const pricing = readPricing(tables, inspection);
  const ids = new Set(tables.models.flatMap((one) => (isTable(one) ? String(one["id"]) : [])));
  const lists = pricesOf(tables, pricing, draft?.text, inspection);
  const entries = readPriceEntries(lists, ids, inspection);
  const needsPrices = draft?.isComplete ?? true;
  const context = { providers, pricing, entries, needsPrices };
  const soldModels = readModels(tables.models, context, inspection);
  const models = soldModels.map(({ model }) => model);
  const plans = readPlans(tables.plans, soldModels, pricing, inspection);
  if (inspection.problems.length > 0) throw new ConfigError(inspection.problems);
  if (models.length === 0) inspection.warning(file, "has no [[models]]: no request can be served");
  warnAboutUnpricedSearches(models, settings.api, inspection);
  warnAboutUnknownContexts(models, inspection);
  warnAboutReaders(file, inspection);
  // Without secrets the proxies of the config are not read.
  if (secrets === "read") warnAboutProxies({ ...settings, providers }, environment, inspection);
  const { warnings, plainSecrets } = inspection;
  return {
    config: { file, ...settings, providers, models, plans },
    warnings,
    plainSecrets,
    pricing,
    pricedInConfig: pricedIn(tables, soldModels),
  };
}

function pricedIn(
  tables: { readonly models: readonly unknown[]; readonly prices: readonly unknown[] },
  models: readonly WrittenModel[],
): ReadonlySet<string> {
  const own = models.filter(({ written: [first] }) => first && !isEmpty(first.given));
  const inTable = own.filter(({ written: [first] }) => first?.at.startsWith("models["));
  const free = tables.models.filter(isTable).filter((table) => table["free"] === true);
  return new Set([
    ...inTable.map(({ model }) => model.id),
    ...free.map((table) => String(table["id"])),
    ...tables.prices.filter(isTable).map((table) => String(table["model"])),
  ]);
}

/** The [[prices]] of the config, then those of the file that [pricing] names: each with its name in problems. */
function pricesOf(
  { prices }: { readonly prices: readonly unknown[] },
  { file }: Pricing,
  draft: string | undefined,
  inspection: Inspection,
): readonly (readonly [place: string, items: readonly unknown[]])[] {
  if (file === undefined && draft === undefined) return [["prices", prices]];
  const name = file ?? "prices";
  const tree = parseToml(name, draft ?? readText(name, "`tollgate prices sync` creates it"));
  const written = isTable(tree) ? tree : {};
  const { prices: further } = readTable({ prices: sections.prices }, written, name, inspection);
  return [
    ["prices", prices],
    [`${name}: prices`, further],
  ];
}

/**
 * The environment variables and the files (absolute) that a valid config refers to. Throws {@link ConfigError} if the
 * config cannot be read.
 */
export function readReferences(file: string): {
  readonly variables: readonly string[];
  readonly files: readonly string[];
} {
  const tree = parseToml(file, readText(file));
  const files = namedFiles(tree).filter((path) => path !== "" && !path.includes("${"));
  return { variables: variablesIn(tree), files: files.map((path) => resolve(dirname(file), path)) };
}

/**
 * The address at which a gateway with this config listens, and whether it expects TLS there. It finds the file like
 * {@link loadConfig} and reads nothing else of it, so secrets may be unreadable and other settings may be wrong.
 * Throws {@link ConfigError} if the file or `server.listen` is wrong.
 */
export function readListener(path: string | undefined): {
  readonly listen: Listen;
  readonly isSecure: boolean;
} {
  const file = findFile(path);
  const tree = parseToml(file, readText(file));
  const server = isTable(tree) && isTable(tree["server"]) ? tree["server"] : {};
  const { listen, tls_cert: certificate = "" } = server;
  const inspection = new Inspection(dirname(file), systemClock.epochMs());
  const written = interpolate(
    listen === undefined ? {} : { listen },
    process.env,
    inspection,
    "server",
  );
  const { listen: address } = readTable(
    { listen: serverOptions.listen },
    isTable(written) ? written : {},
    "server",
    inspection,
  );
  const found = readListen(inspection, "server.listen", address);
  if (inspection.problems.length > 0) throw new ConfigError(inspection.problems);
  return { listen: found, isSecure: certificate !== "" };
}

/**
 * Throws {@link ConfigError} if the environment turns off the verification of certificates or passes options to the
 * runtime.
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
 * Removes the proxy variables from the environment: only a provider's `proxy` counts. Call it once, at the start.
 * Returns the environment before, because a config may refer to these variables.
 */
export function forgetProxyEnvironment(): Environment {
  const before = { ...process.env };
  for (const name of [...PROXY_VARIABLES, "NO_PROXY"]) {
    delete process.env[name];
    delete process.env[name.toLowerCase()];
  }
  return before;
}

/**
 * Removes the variables that change where the PostgreSQL client connects and how: the config alone says that. A PGDATABASE
 * of another program would win over the name in the URL. PGPASSWORD stays: it counts if the URL has no password. Call it
 * before the first connection.
 */
export function forgetPostgresEnvironment(): void {
  for (const name of Object.keys(process.env))
    if (name.startsWith("PG") && name !== "PGPASSWORD") delete process.env[name];
}

/** The person for whom commands make changes, unless `--actor` names one. */
export function actorInEnvironment(): string | undefined {
  return process.env["TOLLGATE_ACTOR"] || undefined;
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

/** `creator`: what creates a file that is not there. */
function readText(file: string, creator = `\`tollgate init ${file}\` creates it`): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    const reason = fileErrorReason(error);
    const advice = reason === "no such file" ? `; ${creator}` : "";
    throw new ConfigError([`${file}: cannot be read: ${reason}${advice}`], { cause: error });
  }
  if (bytes.length > CONFIG_BYTES_MAX) throw new ConfigError([`${file}: is larger than 16MB`]);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new ConfigError([`${file}: is not UTF-8: save the file as UTF-8`], { cause: error });
  }
}

/** An operator may expect that the gateway uses the proxy of the environment, as many programs do. */
function warnAboutProxies(
  { notify, providers }: Pick<Config, "notify" | "providers">,
  environment: Environment,
  inspection: Inspection,
): void {
  const names = PROXY_VARIABLES.flatMap((name) => [name, name.toLowerCase()]).filter(
    (name) => (environment[name] ?? "") !== "",
  );
  const direct = [
    ...[...Map.groupBy(providers, ({ provider }) => provider).values()].flatMap(([first], at) =>
      first?.proxyUrl === undefined ? [`providers[${at}].proxy`] : [],
    ),
    ...(notify.proxyUrl === undefined && (notify.webhook !== undefined || notify.mail !== undefined)
      ? ["notify.proxy"]
      : []),
  ];
  if (names.length === 0 || direct.length === 0) return;
  inspection.warning(
    names.join(", "),
    `set in the environment and not used: set ${direct.join(", ")} to use a proxy, for example proxy = "\${${names[0]}}"`,
  );
}

function warnAboutReaders(file: string, inspection: Inspection): void {
  // Windows has no such modes.
  if (inspection.plainSecrets.length === 0 || process.platform === "win32") return;
  if ((statSync(file).mode & GROUP_AND_OTHERS) === 0) return;
  inspection.warning(
    file,
    `is readable by other users and contains ${inspection.plainSecrets.join(", ")}: chmod 600 it, or use \${NAME} or a file (api_key_file or another key that ends with _file)`,
  );
}

/** The commented example config with every key, its default and its unit. */
export function exampleConfig(): string {
  // The runtime's types describe a .toml import as parsed.
  return String(text);
}
