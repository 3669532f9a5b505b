import { pino, type Logger } from "pino";
import type { Config } from "../config/schema.ts";
import { errorCode } from "../lib/systemError.ts";
import { jsonEscape, replaceUnprintable } from "../lib/printable.ts";

/**
 * What a log line may carry, and nothing else: no header, no body, no text of a client or a provider.
 * Amounts are roubles as decimal strings.
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
  bytes?: number;
  held_rub?: string;
  /** The path of the store. */
  database?: string;
  problem?: string;
}

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Writes out what is buffered; called before the process ends. */
  flush(): void;
}

const TEXT_CHARS_MAX = 256;

/**
 * `write` gets whole lines, those of one turn of the event loop together. pino without transports: their
 * Workers do not run in a compiled binary.
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

/** The names of an error and its causes. Messages stay out: some quote what they met. */
export function errorClass(error: unknown): string {
  const names: string[] = [];
  for (let one = error; one instanceof Error && names.length < 4; one = one.cause) {
    const code = errorCode(one);
    names.push(code === undefined ? one.name : `${one.name} ${code}`);
  }
  return names.length > 0 ? names.join(" < ") : typeof error;
}

/** Forms and writes the lines of a turn behind it, all in one write: the answers of that turn leave first. */
function lineBuffer(write: (lines: string) => void): {
  add: (formLine: () => void) => void;
  write: (line: string) => void;
  flush: () => void;
} {
  let unformed: (() => void)[] = [];
  let lines = "";
  const flush = (): void => {
    const forming = unformed;
    unformed = [];
    for (const formLine of forming) formLine();
    if (lines === "") return;
    const written = lines;
    lines = "";
    write(written);
  };
  return {
    add(formLine) {
      if (unformed.length === 0) setImmediate(flush);
      unformed.push(formLine);
    },
    write(line) {
      lines += line;
    },
    flush,
  };
}

/** Few lines have a text that is too long: only they are copied. */
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

/** `12:00:01 info  request  account=alice status=200`, with what is no plain sign escaped as in JSON. */
function prettyLine(line: string): string {
  const { time, level, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const shown = Object.entries(fields).map(([name, value]) => `${name}=${plainOrJson(value)}`);
  return `${String(time).slice(11, 19)} ${String(level).padEnd(5)} ${plainOrJson(msg)}  ${shown.join(" ")}\n`;
}

function plainOrJson(value: unknown): string {
  if (typeof value === "string" && /^[\x21-\x7e ]*$/.test(value)) return value;
  return replaceUnprintable(JSON.stringify(value), jsonEscape);
}
