/**
 * A TypeScript source taken apart far enough to ask questions of it with regular expressions, without being
 * misled by what stands in a comment or a string.
 */
export interface SourceText {
  /** The source with every comment blank and every string literal replaced by `"<index>"`. Lines stay lines. */
  readonly code: string;
  /** What the string literals say, by that index. Escapes stay as they are written. */
  readonly literals: readonly string[];
  /** All comments, with their marks. */
  readonly comments: readonly string[];
}

// A slash after one of these begins a regular expression; after anything else it divides.
const beforeRegularExpression =
  /(?:[(,=:[!&|?{};+\-*%^~<>]|\b(?:return|typeof|case|in|of|do|else|void|delete))$/;
const comment = /\/\/[^\n]*|\/\*[^]*?\*\//y;
const quoted = /"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'/y;
const regularExpression = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const templateText = /(?:[^`\\$]|\\[^]|\$(?!\{))*/y;

/** Takes a source apart. Throws on a source that ends within a template, which no compiler would take either. */
export function readSourceText(source: string): SourceText {
  const literals: string[] = [];
  const comments: string[] = [];
  // One entry for each template whose `${` is open: how many braces are open within it.
  const openTemplates: number[] = [];
  let code = "";
  let at = 0;

  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const match = pattern.exec(source)?.[0];
    if (match !== undefined) at += match.length;
    return match;
  };
  const keepLiteral = (text: string): void => {
    code += `"${literals.push(text) - 1}"${text.replace(/[^\n]/g, "")}`;
  };
  const readTemplate = (): void => {
    keepLiteral(take(templateText) ?? "");
    if (at >= source.length) throw new Error("a template does not end");
    if (source[at] === "`") at += 1;
    else {
      at += "${".length;
      code += "+(";
      openTemplates.push(0);
    }
  };

  while (at < source.length) {
    const found = take(comment);
    if (found !== undefined) {
      comments.push(found);
      code += found.replace(/[^\n]/g, " ");
      continue;
    }
    const text = take(quoted);
    if (text !== undefined) {
      keepLiteral(text.slice(1, -1));
      continue;
    }
    if (
      source[at] === "/" &&
      beforeRegularExpression.test(code.trimEnd()) &&
      take(regularExpression) !== undefined
    ) {
      code += "/ /";
      continue;
    }
    const character = source[at] ?? "";
    at += 1;
    const depth = openTemplates.at(-1);
    if (character === "`") readTemplate();
    else if (character === "}" && depth === 0) {
      openTemplates.pop();
      code += ")+";
      readTemplate();
    } else {
      if (depth !== undefined && character === "{")
        openTemplates[openTemplates.length - 1] = depth + 1;
      if (depth !== undefined && character === "}")
        openTemplates[openTemplates.length - 1] = depth - 1;
      code += character;
    }
  }
  return { code, literals, comments };
}
