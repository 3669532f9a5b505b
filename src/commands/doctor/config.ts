import { checkEnvironment, ConfigError, loadConfig } from "../../config/load.ts";
import type { Config } from "../../config/schema.ts";
import { failed, passed, type Verdict } from "./verdict.ts";

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
    return passed("nothing in it changes the program behind the config's back");
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return failed(...error.problems);
  }
}
