import type { Config } from "../config/schema.ts";
import { LIMITS_MAX } from "../config/settings.ts";
import type { KeyChanges } from "../store/store.ts";
import {
  amount,
  expiryTime,
  InvalidValue,
  label,
  modelPatterns,
  readField,
  wholeNumber,
} from "./values.ts";

const readers = {
  label,
  expires: expiryTime,
  rpm: wholeNumber(0, LIMITS_MAX.requestsPerMinute),
  tpm: wholeNumber(0, LIMITS_MAX.tokensPerMinute),
  concurrent: wholeNumber(0, LIMITS_MAX.concurrentRequests),
  models: modelPatterns,
  budget: amount,
} as const;

/** The name of a setting, in the options of the commands and in the bodies of the console. */
export type SettingName = keyof typeof readers;

/** Null removes a setting. An absent one stays as it is; a new key does not have it. */
export type KeySettings = {
  readonly [Name in SettingName]?: ReturnType<(typeof readers)[Name]> | null | undefined;
};

/** The text of each setting that is given. */
export type SettingTexts = { readonly [Name in SettingName]?: string | undefined };

const names = Object.keys(readers) as SettingName[];
const flags = names.map((name) => `--${name}`).join(", ");

/** Reads the text of one setting. A duration starts at `nowMs`. Throws InvalidValue. */
export function readSetting(name: SettingName, text: string, nowMs: number): unknown {
  return readers[name](text, nowMs);
}

/**
 * Reads the settings of a new key, or those to change: then `none` removes a setting. Throws InvalidValue with the name
 * of the setting.
 */
export function readSettings(
  texts: SettingTexts,
  use: "create" | "set",
  nowMs: number,
): KeySettings {
  const setting = <Value>(
    name: SettingName,
    read: (text: string, nowMs: number) => Value,
  ): Value | null | undefined => {
    const text = texts[name];
    if (text === undefined) return undefined;
    if (use === "set" && text === "none") return null;
    return readField(name, text, () => read(text, nowMs));
  };
  return {
    label: setting("label", readers.label),
    expires: setting("expires", readers.expires),
    rpm: setting("rpm", readers.rpm),
    tpm: setting("tpm", readers.tpm),
    concurrent: setting("concurrent", readers.concurrent),
    models: setting("models", readers.models),
    budget: setting("budget", readers.budget),
  };
}

/** Throws InvalidValue if no setting is given. */
export function requireSettings(settings: KeySettings): void {
  if (names.some((name) => settings[name] !== undefined)) return;
  throw new InvalidValue(`nothing to change: give at least one of ${flags}`);
}

/** The settings as the store has them. Throws InvalidValue for a model that the config does not have. */
export function keyChanges(config: Config, settings: KeySettings): KeyChanges {
  checkModels(config, settings.models ?? []);
  return {
    label: settings.label,
    expiresAt: settings.expires,
    requestsPerMinute: settings.rpm,
    tokensPerMinute: settings.tpm,
    concurrentRequests: settings.concurrent,
    models: settings.models,
    budget: settings.budget,
  };
}

const KNOWN_MODELS_NAMED_MAX = 20;

/** A misspelled model would silently give the key less access than intended. */
function checkModels(config: Config, patterns: readonly string[]): void {
  const known = config.models.map(({ id }) => id);
  const unknown = patterns.filter((pattern) => !pattern.includes("*") && !known.includes(pattern));
  if (unknown.length === 0) return;
  const named = known.slice(0, KNOWN_MODELS_NAMED_MAX).join(", ") || "none";
  const more = known.length > KNOWN_MODELS_NAMED_MAX ? ", ...: see tollgate models" : "";
  throw new InvalidValue(
    `the config does not have the model ${unknown.map((name) => JSON.stringify(name)).join(", ")}; its models are: ${named}${more}`,
    { field: "models" },
  );
}
