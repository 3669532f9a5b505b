import { visible } from "./print.ts";

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
