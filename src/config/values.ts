import { readFileSync } from "node:fs";
import type { Inspection } from "./inspection.ts";
import { fileErrorReason } from "../lib/systemError.ts";

const MILLISECONDS_PER_UNIT: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const BYTES_PER_UNIT: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1024,
  MB: 1024 ** 2,
  GB: 1024 ** 3,
};

/** Milliseconds of `"500ms"`, `"30s"`, `"5m"`, `"24h"` or `"90d"`; undefined for any other form. */
export function parseDurationMs(text: string): number | undefined {
  return parseQuantity(text, MILLISECONDS_PER_UNIT);
}

/** Bytes of `"100B"`, `"512KB"`, `"20MB"` or `"1GB"`, each unit 1024 of the one before; undefined for any other form. */
function parseSizeBytes(text: string): number | undefined {
  return parseQuantity(text, BYTES_PER_UNIT);
}

/** The default and the limits of a quantity, written as in the file: `{ fallback: "30s", least: "0s", most: "1h" }`. */
export interface QuantityRule {
  readonly fallback: string;
  readonly least: string;
  readonly most: string;
}

/** Milliseconds. A value outside the rule is a problem, and the result is the minimum. */
export function readDurationMs(
  inspection: Inspection,
  key: string,
  value: string | undefined,
  rule: QuantityRule,
): number {
  const example = 'in the form "500ms", "30s", "5m", "24h" or "90d"';
  return readQuantity(inspection, key, value, rule, parseDurationMs, `a duration ${example}`);
}

/** Bytes, like {@link readDurationMs}. */
export function readSizeBytes(
  inspection: Inspection,
  key: string,
  value: string | undefined,
  rule: QuantityRule,
): number {
  return readQuantity(
    inspection,
    key,
    value,
    rule,
    parseSizeBytes,
    'a size in the form "512KB" or "20MB"',
  );
}

function readQuantity(
  inspection: Inspection,
  key: string,
  value: string | undefined,
  rule: QuantityRule,
  parse: (text: string) => number | undefined,
  description: string,
): number {
  const amount = parse(value ?? rule.fallback);
  const least = parse(rule.least) ?? 0;
  const most = parse(rule.most) ?? 0;
  if (amount !== undefined && amount >= least && amount <= most) return amount;
  inspection.problem(key, `must be ${description}, from ${rule.least} to ${rule.most}`);
  return least;
}

function parseQuantity(
  text: string,
  perUnit: Readonly<Record<string, number>>,
): number | undefined {
  const match = /^(\d{1,12})([A-Za-z]{1,2})$/.exec(text);
  const unit = match?.[2];
  if (match === null || unit === undefined || !Object.hasOwn(perUnit, unit)) return undefined;
  const amount = Number(match[1]) * (perUnit[unit] ?? 0);
  return Number.isSafeInteger(amount) ? amount : undefined;
}

/** Checks a list of names: each is not empty, has no control characters and passes `problemOf`. */
export function readNames(
  inspection: Inspection,
  key: string,
  names: readonly (string | undefined)[],
  problemOf: (name: string) => string | undefined = () => undefined,
): readonly string[] {
  return names.map((name = "", index) => {
    const isPlain = name !== "" && !/\p{Cc}/u.test(name);
    const problem = isPlain ? problemOf(name) : "must be a name without control characters";
    if (problem !== undefined) inspection.problem(`${key}[${index}]`, problem);
    return name;
  });
}

const NAMED_FILE_BYTES_MAX = 1024 ** 2;

/**
 * The text of a file that the config names under `key`. Undefined, and a problem, if it cannot be read. The problem does
 * not show the path: an operator may have pasted a secret there.
 */
export function readNamedFile(
  inspection: Inspection,
  key: string,
  path: string,
): string | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(inspection.absolutePath(path));
  } catch (error) {
    inspection.problem(
      key,
      `the file cannot be read: ${fileErrorReason(error)} (a relative path starts at the folder of the config)`,
    );
    return undefined;
  }
  if (bytes.length <= NAMED_FILE_BYTES_MAX) return bytes.toString("utf8");
  inspection.problem(key, "the file is larger than 1MB: use another file");
  return undefined;
}
