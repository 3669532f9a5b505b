import type { Option, Options } from "../../src/config/option.ts";
import { sections } from "../../src/config/sections.ts";

const LINE_LENGTH_MAX = 120;

/**
 * The example with the keys of each table written again: those between its first header, such as `[server]`, and the next
 * empty line. The rest of the example is kept. Throws if a table has no header in it.
 */
export function exampleOf(text: string): string {
  const lines = text.split("\n");
  for (const { header, options } of tablesOf(sections)) {
    // The text shows such a table in its own words.
    if (Object.values(options).every(({ spec }) => spec.example === false)) continue;
    const start = lines.findIndex((line) => line === header || line === `#${header}`);
    if (start === -1) throw new Error(`the example has no ${header}`);
    const off = lines[start]?.startsWith("#") === true ? "#" : "";
    const block = Object.values(options).flatMap((option) => exampleLines(option, off));
    lines.splice(start + 1, lines.indexOf("", start) - start - 1, ...block);
  }
  return lines.join("\n");
}

/** The page of the reference: a heading for each key. */
export function configPage(): string {
  const parts = tablesOf(sections).flatMap(({ name, header, options }) => {
    const single = Object.values(options).filter(
      (option) => option.options === undefined && option.spec.isElsewhere !== true,
    );
    return [`## \`${header}\``].concat(single.flatMap((option) => keyParts(option, name)));
  });
  return [pageHead, ...parts].join("\n\n");
}

const pageHead = `# Config reference

Every key of the config file. \`tollgate init\` writes a file that shows them all, and \`tollgate check\` validates it.
A change takes effect when the gateway reads the file again (SIGHUP), unless the key says otherwise.`;

interface ShownTable {
  /** Such as `models.routes`. */
  readonly name: string;
  /** Such as `[[models.routes]]`. */
  readonly header: string;
  readonly options: Options;
}

/** The tables among the entries, each before those inside it. */
function tablesOf(options: Options, inside = ""): readonly ShownTable[] {
  return Object.values(options).flatMap(({ keys, options: entries, isList }) => {
    if (entries === undefined) return [];
    const name = `${inside}${keys[0]}`;
    const header = isList ? `[[${name}]]` : `[${name}]`;
    return [{ name, header, options: entries }].concat(tablesOf(entries, `${name}.`));
  });
}

function exampleLines({ keys, spec, default: value, ...option }: Option<unknown>, off: string) {
  const { example = value } = spec;
  if (example === false || example === undefined) return [];
  const shown = spec.example === undefined ? keys : keys.slice(0, 1);
  const required = option.isRequired ? "Required. " : "";
  return [
    ...commentOf(`${required}${sentencesOf({ keys, spec, default: value, ...option })}`),
    ...shown.map((key) => `${off}${key} = ${example}`),
  ];
}

function keyParts(option: Option<unknown>, table: string): readonly string[] {
  const { keys, fileKeys, form, isRequired, default: value } = option;
  const [first, ...others] = keys.map((key) => `\`${key}\``);
  const other = fileKeys.length > 0 ? "the name of a file that contains it" : "the same in dollars";
  const pair = others.length > 0 ? ` Or ${others.join()}: ${other}.` : "";
  const absent = isRequired ? "Required." : value === undefined ? "" : `Default: \`${value}\`.`;
  const facts = `${form[0]?.toUpperCase()}${form.slice(1)}. ${absent}`;
  return [`### ${first} of ${table}`, `${facts.trim()}${pair}`, sentencesOf(option)];
}

/** What a key does, with what its entry says besides. */
function sentencesOf({ spec, range, default: value }: Option<unknown>): string {
  const isQuantity = range !== undefined && value?.startsWith('"') === true;
  return [
    spec.doc,
    spec.only === undefined || spec.only === "chat" ? "" : `For the kind "${spec.only}" only.`,
    isQuantity ? `${range}.` : "",
    spec.restart === true ? "A change needs a restart." : "",
  ]
    .filter((sentence) => sentence !== "")
    .join(" ");
}

/** Lines of a comment, each of at most `LINE_LENGTH_MAX` characters. */
function commentOf(text: string): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    const longer = line === undefined ? "" : `${line} ${word}`;
    if (line === undefined || longer.length > LINE_LENGTH_MAX) lines.push(`# ${word}`);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}
