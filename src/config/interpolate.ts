import { joinKey } from "./inspection.ts";
import type { Inspection } from "./inspection.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The systemd service's variables, as lines NAME=value. systemd reads the file as root, so it can have mode 0600. */
export const ENVIRONMENT_FILE = "/etc/tollgate/environment";

/** A `${NAME}`, or another `${`. */
const REFERENCE = /\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?/g;

/**
 * A copy of a parsed TOML tree with `${NAME}` in texts replaced by the variable's value. A secret is never parsed as
 * TOML, and `${` inside a secret is not replaced. An unset or empty variable is a problem, and its text becomes
 * undefined.
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
  if (tree instanceof Date) return tree;
  return Object.fromEntries(
    Object.entries(tree).map(([name, value]) => [
      name,
      interpolate(value, environment, inspection, joinKey(key, name)),
    ]),
  );
}

/** The sorted names of the variables in a parsed TOML tree. */
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
