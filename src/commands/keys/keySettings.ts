import type { Command } from "commander";
import {
  readSetting,
  type KeySettings,
  type SettingName,
} from "../../administration/keySettings.ts";
import { systemClock } from "../../lib/clock.ts";
import { argument, none, orNone } from "../cli/arguments.ts";

/** The options of `keys create` and `keys set`. Only `keys set` accepts `none`. */
export type SettingOptions = {
  readonly [Name in SettingName]?: Exclude<KeySettings[Name], null> | typeof none;
};

interface Setting {
  readonly name: SettingName;
  /** What the flag takes. */
  readonly value: string;
  readonly description: string;
  /** What `none` means. */
  readonly without: string;
}

const settings: readonly Setting[] = [
  { name: "label", value: "text", description: "what the key is for", without: "no label" },
  {
    name: "expires",
    value: "time",
    description: "duration from now such as 30d, or a date: 2026-12-31",
    without: "never",
  },
  {
    name: "rpm",
    value: "count",
    description: "requests per minute, 0 = no limit",
    without: "the limit of the config",
  },
  {
    name: "tpm",
    value: "count",
    description: "tokens per minute, 0 = no limit",
    without: "the limit of the config",
  },
  {
    name: "concurrent",
    value: "count",
    description: "concurrent requests, 0 = no limit",
    without: "the limit of the config",
  },
  {
    name: "models",
    value: "names",
    description: "models that the key may use: a,b or with wildcards gpt-*",
    without: "all models",
  },
  {
    name: "budget",
    value: "roubles",
    description:
      "lifetime limit in roubles, shared with the rotations of the key; a request that can cost more than the rest is rejected, but a provider that reports more tokens than were held can exceed it",
    without: "no limit",
  },
];

/** Adds an option for each setting of a key. In `set` the value `none` removes the setting. */
export function addSettingOptions(command: Command, use: "create" | "set"): void {
  for (const { name, value, description, without } of settings) {
    const flag = `--${name} <${value}>`;
    const parse = argument((text) => readSetting(name, text, systemClock.epochMs()));
    if (use === "create") command.option(flag, description, parse);
    else command.option(flag, `${description}; none = ${without}`, orNone(parse));
  }
}

/** The settings of the options. */
export function settingsOf(options: SettingOptions): KeySettings {
  return {
    label: nullForNone(options.label),
    expires: nullForNone(options.expires),
    rpm: nullForNone(options.rpm),
    tpm: nullForNone(options.tpm),
    concurrent: nullForNone(options.concurrent),
    models: nullForNone(options.models),
    budget: nullForNone(options.budget),
  };
}

function nullForNone<Value>(value: Value | typeof none): Value | null {
  return value === none ? null : value;
}
