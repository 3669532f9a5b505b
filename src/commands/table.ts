import Table from "cli-table3";
import { visible } from "./print.ts";

/** A column of a table, of texts if it has no kind. Money is aligned at the decimal point, other numbers at their end. */
export interface Column {
  readonly head: string;
  readonly kind?: "number" | "money";
}

/** A table without lines, its columns two blanks apart. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const shown = rows.map((row) => row.map(visible));
  const aligned = columns.map(({ kind }, at) => {
    const cells = shown.map((row) => row[at] ?? "");
    return kind === "money" ? alignPoints(cells) : cells;
  });
  const table = new Table({
    chars: borderless,
    style: { head: [], border: [], "padding-left": 0, "padding-right": 0 },
    head: columns.map(({ head }) => head),
    colAligns: columns.map(({ kind }) => (kind === undefined ? "left" : "right")),
  });
  table.push(...rows.map((_, row) => aligned.map((cells) => cells[row] ?? "")));
  return trimLines(table.toString());
}

/** Names and values under each other. */
export function fields(pairs: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return trimLines(
    pairs.map(([name, value]) => `${name.padEnd(width)}  ${visible(value)}`).join("\n"),
  );
}

const borderless = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "  ",
};

/** Pads decimals at their end, so that they can be aligned there and their points stand under each other. */
function alignPoints(cells: readonly string[]): string[] {
  const digitsAfter = (cell: string): number => {
    const point = cell.indexOf(".");
    return point < 0 ? 0 : cell.length - point;
  };
  const most = Math.max(0, ...cells.map(digitsAfter));
  return cells.map((cell) => cell + " ".repeat(most - digitsAfter(cell)));
}

function trimLines(text: string): string {
  return text.replace(/ +$/gm, "");
}
