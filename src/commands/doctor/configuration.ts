import { checkEnvironment, ConfigError, loadConfig } from "../../config/load.ts";
import type { Config, ProviderConfig } from "../../config/schema.ts";
import { failed, passed, type Verdict } from "./verdict.ts";
import { ConnectionError, checkReachable } from "../../providers/upstream.ts";
import { adviceOnConnection } from "../check/advice.ts";

/** What the other checks know of the config. */
export interface KnownConfig {
  readonly config: Config;
  /** Which keys hold a secret in the file itself. Undefined: the config has problems, and is known without its secrets. */
  readonly plainSecrets: readonly string[] | undefined;
}

/** The config as far as it can be used, and what `check` says of it. */
export interface ConfigReading {
  readonly known: KnownConfig | undefined;
  readonly verdict: Verdict;
}

/** Reads the config with its secrets, or else without them: that suffices for the database. */
export function readConfig(path: string | undefined): ConfigReading {
  try {
    const { config, warnings, plainSecrets } = loadConfig({ path });
    const size = `providers: ${config.providers.length}, models: ${config.models.length}`;
    const verdict = passed(
      `${config.file} is valid (${size})`,
      ...warnings.map((warning) => `warning: ${warning}`),
    );
    return { known: { config, plainSecrets }, verdict };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { known: readWithoutSecrets(path), verdict: failed(...error.problems) };
  }
}

function readWithoutSecrets(path: string | undefined): KnownConfig | undefined {
  try {
    const { config } = loadConfig({ path, secrets: "unread" });
    return { config, plainSecrets: undefined };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return undefined;
  }
}

/** Whether `serve` would refuse to start in this environment. */
export function examineEnvironment(): Verdict {
  try {
    checkEnvironment();
    return passed("no environment variable overrides the config");
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return failed(...error.problems);
  }
}

/** All are dialled at once, so this is what the dead ones cost together. */
const REACHED_WITHIN_MS = 5000;

/** Whether each provider can be connected to, by the way of its requests; nothing is sent to it. */
export async function examineProviders({ config, plainSecrets }: KnownConfig): Promise<Verdict> {
  // Without the secrets nobody knows through which proxy, and by which authority, a provider is reached.
  if (plainSecrets === undefined) {
    return failed("not checked, because the config has problems: correct them first");
  }
  const { providers } = config;
  if (providers.length === 0) return passed("the config has no providers");
  const found = await Promise.all(providers.map(problemOf));
  const problems = found.filter((problem) => problem !== undefined);
  const notes = providers.filter((one, at) => found[at] === undefined && isBehindPlainProxy(one));
  const reached = `${providers.length - problems.length} of ${providers.length} accept connections`;
  const lines = [
    `${reached}; \`tollgate check --live\` sends a small request to each route`,
    ...problems,
    ...notes.map(
      ({ id }) => `${id}: the proxy accepts connections, the provider behind it was not tried`,
    ),
  ];
  return problems.length > 0 ? failed(...lines) : passed(...lines);
}

/** Undefined: it is there. */
async function problemOf(provider: ProviderConfig): Promise<string | undefined> {
  const connectTimeoutMs = Math.min(provider.connectTimeoutMs, REACHED_WITHIN_MS);
  try {
    await checkReachable({ ...provider, connectTimeoutMs });
    return undefined;
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    const advice =
      adviceOnConnection(error, { ...provider, connectTimeoutMs }) ??
      "cannot connect: check base_url and the network";
    return `${provider.id}: ${advice}`;
  }
}

function isBehindPlainProxy({ baseUrl, proxyUrl }: ProviderConfig): boolean {
  return proxyUrl !== undefined && baseUrl.startsWith("http:");
}
