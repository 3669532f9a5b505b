/** The rows of the first table under a heading of the third level. A row is its cells. The head is left out. */
export function rowsUnder(page: string, heading: string): string[][] {
  return tableUnder(page, heading).slice(2);
}

/** The same with the head, and with the line below it. */
export function tableUnder(page: string, heading: string): string[][] {
  const [, after = ""] = page.split(`\n### ${heading}\n`);
  const lines = after.split("\n");
  const table = lines.slice(lines.findIndex((line) => line.startsWith("|")));
  const end = table.findIndex((line) => !line.startsWith("|"));
  return table.slice(0, end).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** The text of a cell that is one code span. */
export function codeOf(cell = ""): string {
  const [, , text = cell] = /^(`+)(.+)\1$/.exec(cell) ?? [];
  return text;
}
