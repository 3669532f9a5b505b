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
export function parseSizeBytes(text: string): number | undefined {
  return parseQuantity(text, BYTES_PER_UNIT);
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
