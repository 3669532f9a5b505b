import { checkEnvironment, ConfigError, loadConfig } from "../../config/load.ts";
import type { Config, ProviderConfig } from "../../config/schema.ts";
import { failed, passed, type Verdict } from "./verdict.ts";
import { ConnectionError, checkReachable } from "../../providers/upstream.ts";
import { systemClock } from "../../lib/clock.ts";
import { createProvider } from "../../providers/registry.ts";
import { connectAdvice } from "../check/advice.ts";

/** The config for the other checks. */
export interface LoadedConfig {
  readonly config: Config;
  /** The keys whose secret is in the file itself. Undefined: the config has problems and was read without secrets. */
  readonly plainSecrets: readonly string[] | undefined;
}

export interface ConfigReading {
  /** Undefined: the config cannot be read even without its secrets. */
  readonly loaded: LoadedConfig | undefined;
  readonly verdict: Verdict;
}

/** Reads the config with its secrets. If that fails, reads it without them: the other checks need only the paths. */
export function readConfig(path: string | undefined): ConfigReading {
  try {
    const { config, warnings, plainSecrets } = loadConfig({ path });
    const verdict = passed(
      `${config.file} is valid (${sizeOf(config)})`,
      ...warnings.map((warning) => `warning: ${warning}`),
    );
    return { loaded: { config, plainSecrets }, verdict };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { loaded: readWithoutSecrets(path), verdict: failed(...error.problems) };
  }
}

/** How many providers and models a config has, and accounts if a provider has several. */
export function sizeOf({ providers, models }: Config): string {
  const count = new Set(providers.map(({ provider }) => provider)).size;
  const accounts = providers.filter(({ id, provider }) => id !== provider).length;
  const ofThem = accounts > 0 ? ` with ${accounts} accounts` : "";
  return `providers: ${count}${ofThem}, models: ${models.length}`;
}

function readWithoutSecrets(path: string | undefined): LoadedConfig | undefined {
  try {
    const { config } = loadConfig({ path, secrets: "unread" });
    return { config, plainSecrets: undefined };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return undefined;
  }
}

/** Checks that `serve` would start in this environment. */
export function examineEnvironment(): Verdict {
  try {
    checkEnvironment();
    return passed("no environment variable overrides the config");
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return failed(...error.problems);
  }
}

/** The limit for all providers together, because they are tried at the same time. */
const CONNECT_TIMEOUT_MAX_MS = 5000;

/** Connects to each provider as its requests do, and sends nothing. */
export async function examineProviders({ config, plainSecrets }: LoadedConfig): Promise<Verdict> {
  // The proxy and the certificate authority of a provider are read with the secrets.
  if (plainSecrets === undefined) {
    return failed("not checked, because the config has problems: correct them first");
  }
  const providers = serversOf(config.providers);
  if (providers.length === 0) return passed("the config has no providers");
  const [unreached, withoutKey] = await Promise.all([
    problemsOf(providers, connectionProblem),
    problemsOf(config.providers, keyProblem),
  ]);
  const problems = [...unreached, ...withoutKey];
  const reached = `${providers.length - unreached.length} of ${providers.length} accept connections`;
  const lines = [
    `${reached}; \`tollgate check --live\` sends a small request to each route`,
    ...problems,
  ];
  return problems.length > 0 ? failed(...lines) : passed(...lines);
}

/** Accounts of one provider at one server count once. */
function serversOf(providers: readonly ProviderConfig[]): readonly ProviderConfig[] {
  const isSame = (one: ProviderConfig, other: ProviderConfig): boolean =>
    one.provider === other.provider && one.baseUrl === other.baseUrl;
  return providers.filter(
    (provider, at) => providers.findIndex((other) => isSame(provider, other)) === at,
  );
}

async function problemsOf(
  providers: readonly ProviderConfig[],
  problemOf: (provider: ProviderConfig) => Promise<string | undefined>,
): Promise<readonly string[]> {
  return (await Promise.all(providers.map(problemOf))).filter((problem) => problem !== undefined);
}

/** Gets a key that expires, as the gateway does. */
async function keyProblem(config: ProviderConfig): Promise<string | undefined> {
  if (config.issuer === undefined) return undefined;
  const { key, upstream } = createProvider(config, { clock: systemClock });
  await key?.ready();
  key?.close();
  upstream.close();
  return key?.problem && `${config.id}: no key: ${key.problem}`;
}

async function connectionProblem(provider: ProviderConfig): Promise<string | undefined> {
  const connectTimeoutMs = Math.min(provider.connectTimeoutMs, CONNECT_TIMEOUT_MAX_MS);
  try {
    await checkReachable({ ...provider, connectTimeoutMs });
    return undefined;
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    const advice =
      connectAdvice(error, { ...provider, connectTimeoutMs }) ??
      "cannot connect: check base_url and the network";
    return `${provider.id}: ${advice}`;
  }
}
