/** A line of a unit: its section, its name, and its value. */
export interface UnitLine {
  readonly section: string;
  readonly name: string;
  readonly value: string;
}

/**
 * Reads a unit as systemd.syntax(7) says: sections, `name=value`, lines that begin with `#` or `;`.
 * Throws for any other line, and for a continued line: this program writes none.
 */
export function readUnit(text: string): readonly UnitLine[] {
  let section = "";
  return text.split("\n").flatMap((line) => {
    if (line === "" || /^[#;]/.test(line)) return [];
    const header = /^\[(\w+)\]$/.exec(line)?.[1];
    if (header !== undefined) {
      section = header;
      return [];
    }
    const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined || value.endsWith("\\")) {
      throw new Error(`not a line of a unit: ${line}`);
    }
    return [{ section, name, value }];
  });
}

/** The values of all lines of this name. */
export function valuesOf(unit: readonly UnitLine[], name: string): readonly string[] {
  return unit.filter((line) => line.name === name).map(({ value }) => value);
}

/**
 * The words of a value, in the way of systemd: parted by blanks, quoted with " or ', a backslash taking
 * the next character as it is, %% for %, and in the arguments of a command $$ for $. Throws for a single one.
 */
export function wordsOf(value: string, kind: "paths" | "command"): readonly string[] {
  const words = value.match(/(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+/g) ?? [];
  return words.map((word, at) => {
    const specified = undoubled(unquoted(word), "%");
    return kind === "command" && at > 0 ? undoubled(specified, "$") : specified;
  });
}

function unquoted(word: string): string {
  return word.replace(
    /"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|\\(.)/g,
    (_, double?: string, single?: string, escaped?: string) =>
      escaped ?? (double ?? single ?? "").replace(/\\(.)/g, "$1"),
  );
}

function undoubled(text: string, sign: string): string {
  const parts = text.split(sign + sign);
  if (parts.some((part) => part.includes(sign))) throw new Error(`a single ${sign} in ${text}`);
  return parts.join(sign);
}
