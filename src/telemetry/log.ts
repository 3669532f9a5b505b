import type { Config } from "../config/schema.ts";
import { errorCode } from "../lib/systemError.ts";
import { jsonEscape, replaceUnprintable } from "../lib/printable.ts";
import { events, type EventName, type EventOf } from "./events.ts";

/**
 * All fields that a log line may have. Headers but the user agent, bodies, and texts of clients or providers are never logged.
 * Amounts are roubles as decimal strings.
 */
export interface LogFields {
  request_id?: string;
  replica_id?: number;
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
  /** Web searches that the provider ran and nobody was charged for, because the model has no price for them. */
  unpriced_searches?: number;
  estimated?: boolean;
  cost_rub?: string;
  write_off_rub?: string;
  attempts?: number;
  duration_ms?: number;
  first_byte_ms?: number;
  cooldown_ms?: number;
  error?: string;
  /** Of a client, of a listener, or the host of a recipient. */
  address?: string;
  user_agent?: string;
  version?: string;
  bun?: string;
  sqlite?: string | undefined;
  count?: number;
  total?: number;
  bytes?: number;
  needed_bytes?: number;
  free_bytes?: number;
  held_rub?: string;
  /** The path of the database. */
  database?: string;
  /** The path of the backup that an upgrade makes. */
  backup?: string;
  /** The number of the database's schema. */
  schema?: number;
  problem?: string;
  /** The type of a notice. */
  notice?: string;
}

export interface Log {
  /** False if `debug` writes nothing. */
  readonly isDebug: boolean;
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  /** The line has the event's name and its message. */
  warn(event: EventOf<"warn">, fields?: LogFields): void;
  error(event: EventOf<"error">, fields?: LogFields): void;
  /** Writes the buffered lines. Call it before the process ends. */
  flush(): void;
}

/** Which lines are written, and how. */
type LogForm = Pick<Config["log"], "level" | "format">;
type Level = Exclude<Config["log"]["level"], "silent">;

/** A line that is not formatted yet. */
interface Entry {
  readonly level: Level;
  readonly event: string | undefined;
  readonly message: string;
  readonly fields: LogFields;
}

const SEVERITY = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 } as const;
const TEXT_CHARS_MAX = 256;

/**
 * Creates the log. `write` gets complete lines, all lines of one turn of the event loop in one call. They are formatted
 * after that turn, so that its answers are sent first. The caller must not change the fields after the call.
 */
export function createLog({ level, format }: LogForm, write: (lines: string) => void): Log {
  const lineOf = format === "json" ? jsonLine : prettyLine;
  let pending: Entry[] = [];
  const flush = (): void => {
    if (pending.length === 0) return;
    const entries = pending;
    pending = [];
    const time = new Date().toISOString();
    let lines = "";
    for (const entry of entries) lines += lineOf(time, entry);
    write(lines);
  };
  const add = (entry: Entry): void => {
    if (SEVERITY[entry.level] < SEVERITY[level]) return;
    if (pending.length === 0) setImmediate(flush);
    pending.push(entry);
  };
  const addMessage = (entryLevel: Level, message: string, fields: LogFields): void =>
    add({ level: entryLevel, event: undefined, message, fields });
  const addEvent = (event: EventName, fields: LogFields): void =>
    add({ level: events[event].level, event, message: events[event].message, fields });
  return {
    isDebug: level === "debug",
    debug: (message, fields = {}) => addMessage("debug", message, fields),
    info: (message, fields = {}) => addMessage("info", message, fields),
    warn: (event, fields = {}) => addEvent(event, fields),
    error: (event, fields = {}) => addEvent(event, fields),
    flush,
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

/** One JSON object in one line. The fields are flat, so one call of the engine's serializer writes all of them. */
function jsonLine(time: string, { level, event, message, fields }: Entry): string {
  const name = event === undefined ? "" : `,"event":"${event}"`;
  const members = JSON.stringify(capped(fields)).slice(1, -1);
  const comma = members === "" ? "" : ",";
  return `{"level":"${level}","time":"${time}"${name}${comma}${members},"msg":${JSON.stringify(message)}}\n`;
}

/** `12:00:01 info  request  account=alice status=200`. Values that are not plain ASCII are written as JSON. */
function prettyLine(time: string, { level, event, message, fields }: Entry): string {
  const shown = Object.entries({ event, ...capped(fields) })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${plainOrJson(value)}`);
  return `${time.slice(11, 19)} ${level.padEnd(5)} ${plainOrJson(message)}  ${shown.join(" ")}\n`;
}

function plainOrJson(value: unknown): string {
  if (typeof value === "string" && /^[\x21-\x7e ]*$/.test(value)) return value;
  return replaceUnprintable(JSON.stringify(value), jsonEscape);
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
