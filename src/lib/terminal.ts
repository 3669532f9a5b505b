import { isoTime } from "./clock.ts";
import { formatRoubles } from "./money.ts";
import { jsonEscape, replaceUnprintable } from "./printable.ts";

/**
 * The text on one line, with an escape for each character that a terminal interprets or hides: control and format
 * characters, line ends, lone surrogates.
 */
export function visible(text: string): string {
  return replaceUnprintable(text, escaped);
}

function escaped(character: string): string {
  switch (character) {
    case "\n":
      return "\\n";
    case "\r":
      return "\\r";
    case "\t":
      return "\\t";
    default:
      return jsonEscape(character);
  }
}

/** A column of a table; without a kind it contains text. Money is aligned at the decimal point, numbers to the right. */
export interface Column {
  readonly head: string;
  readonly kind?: "number" | "money";
}

/** A table without borders. Two spaces separate the columns. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const padded = columns.map(({ head, kind }, at) => {
    const cells = rows.map((row) => visible(row[at] ?? ""));
    return padCells([head, ...(kind === "money" ? alignPoints(cells) : cells)], kind === undefined);
  });
  const lines = Array.from({ length: rows.length + 1 }, (_, line) =>
    padded.map((cells) => cells[line]).join("  "),
  );
  return trimLines(lines.join("\n"));
}

/** One line for each name and value. */
export function fields(pairs: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return trimLines(
    pairs.map(([name, value]) => `${name.padEnd(width)}  ${visible(value)}`).join("\n"),
  );
}

/** Pads all cells to the width of the widest, in columns of the terminal: some characters take two. */
function padCells(cells: readonly string[], isLeft: boolean): string[] {
  const widths = cells.map((cell) => Bun.stringWidth(cell));
  const widest = maxOf(widths);
  return cells.map((cell, at) => {
    const spaces = " ".repeat(widest - (widths[at] ?? 0));
    return isLeft ? cell + spaces : spaces + cell;
  });
}

/** Pads decimals to the same number of places, so that their points align when they are aligned right. */
function alignPoints(cells: readonly string[]): string[] {
  const digitsAfter = (cell: string): number => {
    const point = cell.indexOf(".");
    return point < 0 ? 0 : cell.length - point;
  };
  const most = maxOf(cells.map(digitsAfter));
  return cells.map((cell) => cell + " ".repeat(most - digitsAfter(cell)));
}

/** Math.max(...numbers) overflows the stack for a long table. */
function maxOf(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), 0);
}

function trimLines(text: string): string {
  return text.replace(/ +$/gm, "");
}

/** ISO 8601 in UTC, to the second. */
export function shortTime(atMs: number): string {
  return `${isoTime(atMs).slice(0, "2026-01-01T00:00:00".length)}Z`;
}

const TOKENS = 1_000_000n;

/** Roubles per 1,000,000 tokens. `price` is nano-roubles per token. */
export function pricePerMillion(price: bigint): string {
  return formatRoubles(price * TOKENS);
}

/** A shell command that runs tollgate with these arguments, and with the same `--config`, if any. */
export function commandToPaste(config: string | undefined, ...words: readonly string[]): string {
  const option = config === undefined ? [] : ["--config", config];
  return ["tollgate", ...words, ...option].map(shellWord).join(" ");
}

/** A text quoted as one word for a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w./%@:+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Bytes for people, such as `1.5 GB`. */
export function bytesText(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const digits = power === 0 ? 0 : 1;
  return `${(bytes / 1000 ** power).toFixed(digits)} ${units[power]}`;
}
