import type { Command } from "commander";
import { LIMITS_MAX, type Config } from "../../config/schema.ts";
import { systemClock } from "../../lib/clock.ts";
import type { KeyChanges } from "../../store/store.ts";
import {
  amount,
  expiryTime,
  label,
  modelPatterns,
  none,
  orNone,
  wholeNumber,
} from "../cli/arguments.ts";
import { CommandFailure } from "../cli/print.ts";

/** The options of `keys create` and `keys set`. Only `keys set` accepts `none`. */
export interface SettingOptions {
  readonly label?: string | None;
  readonly expires?: number | None;
  readonly rpm?: number | None;
  readonly tpm?: number | None;
  readonly concurrent?: number | None;
  readonly models?: readonly string[] | None;
  readonly budget?: bigint | None;
}

type None = typeof none;

interface Setting {
  readonly flag: string;
  readonly description: string;
  /** What `none` means. */
  readonly without: string;
  readonly parse: (text: string) => unknown;
}

const settings: readonly Setting[] = [
  { flag: "--label <text>", description: "what the key is for", without: "no label", parse: label },
  {
    flag: "--expires <time>",
    description: "duration from now such as 30d, or a date: 2026-12-31",
    without: "never",
    parse: (text) => expiryTime(text, systemClock.epochMs()),
  },
  {
    flag: "--rpm <count>",
    description: "requests per minute, 0 = no limit",
    without: "the limit of the config",
    parse: wholeNumber(0, LIMITS_MAX.requestsPerMinute),
  },
  {
    flag: "--tpm <count>",
    description: "tokens per minute, 0 = no limit",
    without: "the limit of the config",
    parse: wholeNumber(0, LIMITS_MAX.tokensPerMinute),
  },
  {
    flag: "--concurrent <count>",
    description: "concurrent requests, 0 = no limit",
    without: "the limit of the config",
    parse: wholeNumber(0, LIMITS_MAX.concurrentRequests),
  },
  {
    flag: "--models <names>",
    description: "models that the key may use: a,b or with wildcards gpt-*",
    without: "all models",
    parse: modelPatterns,
  },
  {
    flag: "--budget <roubles>",
    description:
      "lifetime limit in roubles, shared with the rotations of the key; a request that can cost more than the rest is rejected, but a provider that reports more tokens than were held can exceed it",
    without: "no limit",
    parse: amount,
  },
];

/** All flags, for a message. */
export const settingFlags = settings.map(({ flag }) => flag.split(" ")[0]).join(", ");

/** Adds an option for each setting of a key. In `set` the value `none` removes the setting. */
export function addSettingOptions(command: Command, use: "create" | "set"): void {
  for (const { flag, description, without, parse } of settings) {
    if (use === "create") command.option(flag, description, parse);
    else command.option(flag, `${description}; none = ${without}`, orNone(parse));
  }
}

/** Converts the options. Throws CommandFailure for a model that the config does not have. */
export function settingsOf(config: Config, options: SettingOptions): KeyChanges {
  const models = nullForNone(options.models);
  checkModels(config, models ?? []);
  return {
    label: nullForNone(options.label),
    expiresAt: nullForNone(options.expires),
    requestsPerMinute: nullForNone(options.rpm),
    tokensPerMinute: nullForNone(options.tpm),
    concurrentRequests: nullForNone(options.concurrent),
    models,
    budget: nullForNone(options.budget),
  };
}

function nullForNone<Value>(value: Value | None): Value | null {
  return value === none ? null : value;
}

const KNOWN_MODELS_NAMED_MAX = 20;

/** A misspelled model would silently give the key less access than intended. */
function checkModels(config: Config, patterns: readonly string[]): void {
  const known = config.models.map(({ id }) => id);
  const unknown = patterns.filter((pattern) => !pattern.includes("*") && !known.includes(pattern));
  if (unknown.length === 0) return;
  const named = known.slice(0, KNOWN_MODELS_NAMED_MAX).join(", ") || "none";
  const more = known.length > KNOWN_MODELS_NAMED_MAX ? ", ...: see tollgate models" : "";
  throw new CommandFailure(
    `the config does not have the model ${unknown.map((name) => JSON.stringify(name)).join(", ")}; its models are: ${named}${more}`,
  );
}
