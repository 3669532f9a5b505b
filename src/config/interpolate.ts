import { joinKey } from "./inspection.ts";
import type { Inspection } from "./inspection.ts";

/** The variables that a config may name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where a service of systemd has them, lines NAME=value: read by systemd itself, as root, so that mode 0600 keeps it from all others. */
export const ENVIRONMENT_FILE = "/etc/tollgate/environment";

/** A `${NAME}`, or a `${` that is no such thing. */
const REFERENCE = /\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?/g;

/**
 * A copy of a parsed TOML tree in which each `${NAME}` inside a text is the value of that variable. It is
 * done after parsing and to values only, so that a secret can never be read as TOML, and once, so that a
 * secret which itself contains `${` is left alone. A variable that is unset or empty is a problem, and the
 * value that named it is undefined in the copy.
 */
export function interpolate(
  tree: unknown,
  environment: Environment,
  inspection: Inspection,
  key = "",
): unknown {
  if (typeof tree === "string") return interpolateText(tree, environment, inspection, key);
  if (Array.isArray(tree)) {
    return tree.map((item, index) =>
      interpolate(item, environment, inspection, `${key}[${index}]`),
    );
  }
  if (typeof tree !== "object" || tree === null) return tree;
  // No key of the file takes a date, but a date is an object and would pass for an empty table.
  // As a number that is none, it passes for nothing.
  if (tree instanceof Date) return Number.NaN;
  return Object.fromEntries(
    Object.entries(tree).map(([name, value]) => [
      name,
      interpolate(value, environment, inspection, joinKey(key, name)),
    ]),
  );
}

/** The variables that the texts of a parsed TOML tree name, sorted. */
export function variablesIn(tree: unknown): readonly string[] {
  const names = textsIn(tree).flatMap((text) =>
    Array.from(text.matchAll(REFERENCE), ([, name]) => name ?? []).flat(),
  );
  return [...new Set(names)].sort();
}

function textsIn(tree: unknown): readonly string[] {
  if (typeof tree === "string") return [tree];
  if (typeof tree !== "object" || tree === null) return [];
  return Object.values(tree).flatMap(textsIn);
}

const advice = `set it and run this again, or restart a gateway that started without it; a systemd service reads ${ENVIRONMENT_FILE}, and as root \`set -a; . ${ENVIRONMENT_FILE}\` loads it into the shell`;

function interpolateText(
  text: string,
  environment: Environment,
  inspection: Inspection,
  key: string,
): string | undefined {
  let complete = true;
  const result = text.replace(REFERENCE, (_, name?: string) => {
    const value = name === undefined ? undefined : ownValue(environment, name);
    if (value !== undefined && value !== "") return value;
    complete = false;
    inspection.problem(
      key,
      name === undefined
        ? "a ${ must be followed by the name of an environment variable and a }"
        : `the environment variable ${name} is ${value === "" ? "empty" : "not set"}: ${advice}`,
    );
    return "";
  });
  if (text.includes("${")) inspection.markFromEnvironment(key);
  return complete ? result : undefined;
}

function ownValue(environment: Environment, name: string): string | undefined {
  return Object.hasOwn(environment, name) ? environment[name] : undefined;
}
