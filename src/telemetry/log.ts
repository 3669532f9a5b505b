import { pino, type Logger } from "pino";
import type { Config } from "../config/schema.ts";
import { errorCode } from "../lib/systemError.ts";
import { jsonEscape, replaceUnprintable } from "../lib/printable.ts";

/**
 * All fields that a log line may have. Headers, bodies and texts of clients or providers are never logged. Amounts are
 * roubles as decimal strings.
 */
export interface LogFields {
  request_id?: string;
  method?: string;
  path?: string;
  account?: string;
  key?: string;
  endpoint?: string;
  model?: string;
  provider?: string;
  stream?: boolean;
  status?: number;
  outcome?: string;
  prompt_tokens?: number;
  completion_tokens?: number;
  estimated?: boolean;
  cost_rub?: string;
  write_off_rub?: string;
  attempts?: number;
  duration_ms?: number;
  first_byte_ms?: number;
  cooldown_ms?: number;
  error?: string;
  address?: string;
  version?: string;
  bun?: string;
  sqlite?: string | undefined;
  count?: number;
  total?: number;
  bytes?: number;
  held_rub?: string;
  /** The path of the database. */
  database?: string;
  problem?: string;
}

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Writes the buffered lines. Call it before the process ends. */
  flush(): void;
}

const TEXT_CHARS_MAX = 256;

/**
 * Creates the log. `write` gets complete lines, all lines of one turn of the event loop in one call. pino's transports are
 * not used: their Workers do not run in a compiled binary.
 */
export function createLog(options: Config["log"], write: (lines: string) => void): Log {
  const buffer = lineBuffer(write);
  const logger: Logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    {
      write: options.format === "json" ? buffer.write : (line) => buffer.write(prettyLine(line)),
    },
  );
  const line =
    (level: "debug" | "info" | "warn" | "error") =>
    (message: string, fields: LogFields = {}): void => {
      if (logger.isLevelEnabled(level)) buffer.add(() => logger[level](capped(fields), message));
    };
  return {
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
    flush: buffer.flush,
  };
}

/** The names and codes of an error and its causes. Messages are left out because some quote their input. */
export function errorClass(error: unknown): string {
  const names: string[] = [];
  for (let one = error; one instanceof Error && names.length < 4; one = one.cause) {
    const code = errorCode(one);
    names.push(code === undefined ? one.name : `${one.name} ${code}`);
  }
  return names.length > 0 ? names.join(" < ") : typeof error;
}

/** Formats and writes lines after the current turn of the event loop, so that answers of that turn are sent first. */
function lineBuffer(write: (lines: string) => void): {
  add: (format: () => void) => void;
  write: (line: string) => void;
  flush: () => void;
} {
  let pending: (() => void)[] = [];
  let lines = "";
  const flush = (): void => {
    const batch = pending;
    pending = [];
    for (const format of batch) format();
    if (lines === "") return;
    const written = lines;
    lines = "";
    write(written);
  };
  return {
    add(format) {
      if (pending.length === 0) setImmediate(flush);
      pending.push(format);
    },
    write(line) {
      lines += line;
    },
    flush,
  };
}

/** Cuts long texts. Copies the fields only if one is too long. */
function capped(fields: LogFields): LogFields {
  for (const name in fields) {
    if (isTooLong(fields[name as keyof LogFields])) return withShortTexts(fields);
  }
  return fields;
}

function withShortTexts(fields: LogFields): LogFields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      isTooLong(value) ? value.slice(0, TEXT_CHARS_MAX) : value,
    ]),
  );
}

function isTooLong(value: unknown): value is string {
  return typeof value === "string" && value.length > TEXT_CHARS_MAX;
}

/** `12:00:01 info  request  account=alice status=200`. Values that are not plain ASCII are written as JSON. */
function prettyLine(line: string): string {
  const { time, level, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const shown = Object.entries(fields).map(([name, value]) => `${name}=${plainOrJson(value)}`);
  return `${String(time).slice(11, 19)} ${String(level).padEnd(5)} ${plainOrJson(msg)}  ${shown.join(" ")}\n`;
}

function plainOrJson(value: unknown): string {
  if (typeof value === "string" && /^[\x21-\x7e ]*$/.test(value)) return value;
  return replaceUnprintable(JSON.stringify(value), jsonEscape);
}
