/** What a page is made of. Pages of docs/ that people write and pages that are generated use the same rules. */
import { join, relative } from "node:path";

/** The most characters of a table's cell. A longer text needs a paragraph or a heading of its own. */
export const CELL_MAX = 200;

/** The anchor of a heading, as GitHub makes it. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

/** A page as its readers see it. */
export interface Page {
  /** In the order of the page. Text between backticks is part of a heading, as it is for GitHub. */
  readonly anchors: readonly string[];
  /** The targets of its links and pictures. */
  readonly links: readonly string[];
  /** The cells of all tables, without the space around them. */
  readonly cells: readonly string[];
  /** The text without code: what a site reads as HTML if it looks like HTML. */
  readonly prose: string;
}

export function readPage(text: string): Page {
  const withoutBlocks = text.replace(/^```[^]*?^```$/gm, "");
  const lines = withoutBlocks.split("\n");
  const headings = lines.flatMap((line) => /^#+ (.*)$/.exec(line)?.[1] ?? []);
  const prose = withoutBlocks.replace(/(`+)[^]*?[^`]\1(?!`)/g, "");
  return {
    anchors: headings.map(anchorOf),
    links: [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target),
    cells: lines.filter((line) => line.startsWith("|")).flatMap(cellsOf),
    prose,
  };
}

function cellsOf(line: string): string[] {
  const cells = line.split(/(?<!\\)\|/).slice(1, -1);
  return cells.map((cell) => cell.trim()).filter((cell) => !/^:?-+:?$/.test(cell));
}

/** The code blocks of one language. */
export function codeBlocks(text: string, language: string): string[] {
  const blocks = text.matchAll(/^```(\w*)\n([^]*?)^```$/gm);
  return [...blocks].flatMap(([, word, code = ""]) => (word === language ? [code] : []));
}

/** A table. Throws at a cell that is too long: its text needs another form. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  for (const cell of rows.flat()) {
    if (cell.length > CELL_MAX) throw new Error(`a cell has ${cell.length} characters: ${cell}`);
  }
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/** A text as code, whatever backticks it has. */
export function code(text: string): string {
  return text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``;
}

/** A text of the command line as Markdown: what looks like a tag or an emphasis is neither. */
export function plainText(text: string): string {
  const parts = text.split(/(`[^`]*`)/);
  return parts.map((part, at) => (at % 2 === 1 ? part : part.replace(/[<*]/g, "\\$&"))).join("");
}

/** A link in `page` to a target as the project names it: from `docs/`, with an anchor. */
export function linkFrom(page: string, target: string, text: string): string {
  return `[${text}](${relative(join("docs", page, ".."), target)})`;
}
