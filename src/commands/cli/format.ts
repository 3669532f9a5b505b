import { visible } from "./print.ts";
import { isoTime } from "../../lib/time.ts";
import { formatRoubles } from "../../lib/money.ts";

/** A column of a table, of texts if it has no kind. Money is aligned at the decimal point, other numbers at their end. */
export interface Column {
  readonly head: string;
  readonly kind?: "number" | "money";
}

/** A table without lines, its columns two blanks apart. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const shown = columns.map(({ head, kind }, at) => {
    const cells = rows.map((row) => visible(row[at] ?? ""));
    return padded([head, ...(kind === "money" ? alignPoints(cells) : cells)], kind === undefined);
  });
  const lines = Array.from({ length: rows.length + 1 }, (_, line) =>
    shown.map((cells) => cells[line]).join("  "),
  );
  return trimLines(lines.join("\n"));
}

/** Names and values under each other. */
export function fields(pairs: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return trimLines(
    pairs.map(([name, value]) => `${name.padEnd(width)}  ${visible(value)}`).join("\n"),
  );
}

/** Each cell as wide as the widest, which is counted in the terminal's columns: some letters take two. */
function padded(cells: readonly string[], isLeft: boolean): string[] {
  const widths = cells.map((cell) => Bun.stringWidth(cell));
  const most = greatest(widths);
  return cells.map((cell, at) => {
    const blanks = " ".repeat(most - (widths[at] ?? 0));
    return isLeft ? cell + blanks : blanks + cell;
  });
}

/** Pads decimals at their end, so that they can be aligned there and their points stand under each other. */
function alignPoints(cells: readonly string[]): string[] {
  const digitsAfter = (cell: string): number => {
    const point = cell.indexOf(".");
    return point < 0 ? 0 : cell.length - point;
  };
  const most = greatest(cells.map(digitsAfter));
  return cells.map((cell) => cell + " ".repeat(most - digitsAfter(cell)));
}

/** Math.max takes its numbers as arguments, of which there is no room for as many as a table may have rows. */
function greatest(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), 0);
}

function trimLines(text: string): string {
  return text.replace(/ +$/gm, "");
}

/**
 * Rows as CSV by https://www.rfc-editor.org/rfc/rfc4180. A text that a spreadsheet would take for a
 * formula gets an apostrophe in front; a number is none, also below zero.
 */
export function csv(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n");
}

function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const isFormula = /^[=+\-@\t\r\n]/.test(value) && !/^-\d+(\.\d+)?$/.test(value);
  const safe = isFormula ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** ISO 8601 in UTC, to the second: for people. */
export function shortTime(atMs: number): string {
  return `${isoTime(atMs).slice(0, "2026-01-01T00:00:00".length)}Z`;
}

const TOKENS = 1_000_000n;

/** Roubles for 1,000,000 tokens, as people compare prices; `price` is nano-roubles for one token. */
export function pricePerMillion(price: bigint): string {
  return formatRoubles(price * TOKENS);
}

/** A line for a shell that runs this program with these words, on the config that `--config` named, if it did. */
export function commandToPaste(config: string | undefined, ...words: readonly string[]): string {
  const option = config === undefined ? [] : ["--config", config];
  return ["tollgate", ...words, ...option].map(shellWord).join(" ");
}

/** A text as one word of a POSIX shell, which reads nothing into it. */
export function shellWord(text: string): string {
  return /^[\w./%@:+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
