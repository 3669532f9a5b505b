import { readdir } from "node:fs/promises";
import { join, posix } from "node:path";

/** One file of the tree, taken apart once and asked many questions. */
export interface SourceFile {
  /** From the project's root, with slashes: "src/http/server.ts". */
  readonly path: string;
  readonly source: string;
  readonly text: SourceText;
  /** Everything it imports, type-only and dynamic imports included, as written. */
  readonly imports: readonly string[];
}

/** A power that only some may use: a package, a pattern in the code, or both. */
export interface Power {
  readonly name: string;
  /** Package names; a subpath counts as its package. */
  readonly packages?: readonly string[];
  /** Matched against code with blank comments and without strings. */
  readonly code?: RegExp;
  /** Files, and folders with a closing slash. Empty: no file may use it. */
  readonly owners: readonly string[];
}

/** Every TypeScript file under a folder of the project. */
export async function readSourceTree(projectRoot: string, folder: string): Promise<SourceFile[]> {
  const entries = await readdir(join(projectRoot, folder), {
    recursive: true,
    withFileTypes: true,
  });
  const files = entries.filter((entry) => entry.isFile() && /\.[cm]?tsx?$/.test(entry.name));
  return Promise.all(
    files.map(async (file) => {
      const path = join(file.parentPath, file.name);
      return sourceFile(posix.relative(projectRoot, path), await Bun.file(path).text());
    }),
  );
}

/** Takes one source apart. Throws when Bun finds an import that the reading of the text missed. */
function sourceFile(path: string, source: string): SourceFile {
  const text = readSourceText(source);
  const imports = importsOf(text);
  const isPage = path.endsWith(".tsx");
  const missed = new Bun.Transpiler({ loader: isPage ? "tsx" : "ts" })
    .scanImports(source)
    .map((found) => found.path)
    // The compiler adds the import of what JSX calls.
    .filter((found) => !imports.includes(found) && !(isPage && /^react\b/.test(found)));
  if (missed.length > 0)
    throw new Error(
      `${path}: the reader of this test overlooks the import of ${missed.join(", ")}`,
    );
  return { path, source, text, imports };
}

/** A tree made of snippets, by path. */
export function sourceTree(sources: Readonly<Record<string, string>>): SourceFile[] {
  return Object.entries(sources).map(([path, source]) => sourceFile(path, source));
}

function importsOf({ code, literals }: SourceText): string[] {
  const found = code.matchAll(/(?:\bfrom\s*|(?<![.\w])(?:import|require)\s*\(?\s*)"(\d+)"/g);
  return [...new Set([...found].map((match) => literals[Number(match[1])] ?? ""))];
}

/** The path of a relative import from the project's root, or undefined for a package. */
function target(file: SourceFile, specifier: string): string | undefined {
  return specifier.startsWith(".") ? posix.join(posix.dirname(file.path), specifier) : undefined;
}

function targets(file: SourceFile): string[] {
  return file.imports.flatMap((specifier) => target(file, specifier) ?? []);
}

/** The name of a file in the ranks: its folder under src, or its own name for the files directly there. */
function place(path: string): string {
  return posix.basename(path.split("/")[1] ?? "", ".ts");
}

function isOwned(path: string, owners: readonly string[]): boolean {
  return owners.some((owner) => (owner.endsWith("/") ? path.startsWith(owner) : path === owner));
}

// A text that the executable carries along is no code and has no rank.
const embeddedText = /\.(?:toml|txt|sql|md|css)$/;

/** Imports that do not point strictly down, leave src, or name no file. Folders of one rank must not import each other. */
export function rankViolations(
  files: readonly SourceFile[],
  ranks: readonly (readonly string[])[],
): string[] {
  const rankOf = (path: string): number => ranks.findIndex((rank) => rank.includes(place(path)));
  const known = new Set(files.map((file) => file.path));
  return files.flatMap((file) => {
    if (rankOf(file.path) < 0) return [`${file.path} has no rank`];
    return targets(file).flatMap((path) => {
      if (embeddedText.test(path)) return [];
      if (!path.startsWith("src/")) return [`${file.path} imports ${path}, which is outside src`];
      if (!known.has(path))
        return [`${file.path} imports ${path}, which does not exist (name it with its .ts)`];
      const isInside = place(path) === place(file.path) && path.split("/").length > 2;
      return isInside || rankOf(path) > rankOf(file.path)
        ? []
        : [`${file.path} imports ${path}, which is not below it`];
    });
  });
}

/** Imports from outside a folder of anything but its public file, type-only imports included. */
export function faceViolations(
  files: readonly SourceFile[],
  faces: Readonly<Record<string, readonly string[]>>,
): string[] {
  return files.flatMap((file) =>
    targets(file)
      .filter(
        (path) => place(path) !== place(file.path) && faces[place(path)]?.includes(path) === false,
      )
      .map((path) => `${file.path} imports ${path}, which is not a face of ${place(path)}`),
  );
}

/** Imports that load a module with its importer, of modules that are to be loaded on demand. Types are not loaded. */
export function eagerImports(files: readonly SourceFile[], onDemand: readonly string[]): string[] {
  return files.flatMap((file) =>
    [...file.source.matchAll(/^(?:import|export)\b(?! type\b)[^;(]*?"(\.[^"]+)"/gm)]
      .map(([, specifier = ""]) => target(file, specifier) ?? "")
      .filter((path) => onDemand.includes(path))
      .map((path) => `${file.path} loads ${path} at the start`),
  );
}

/** Uses of a power by files that do not own it. */
export function ownerViolations(files: readonly SourceFile[], powers: readonly Power[]): string[] {
  return powers.flatMap((power) =>
    files
      .filter((file) => !isOwned(file.path, power.owners) && uses(file, power))
      .map(
        (file) =>
          `${file.path} uses ${power.name}, which belongs to ${power.owners.join(", ") || "no file"}`,
      ),
  );
}

function uses(file: SourceFile, power: Power): boolean {
  const isNamed = (name: string): boolean =>
    file.imports.some((specifier) => specifier === name || specifier.startsWith(`${name}/`));
  return power.packages?.some(isNamed) === true || power.code?.test(file.text.code) === true;
}

/** Imports between adapters of different kinds; an adapter's kind is how its file or its folder begins. */
export function adapterViolations(
  files: readonly SourceFile[],
  folder: string,
  kinds: readonly string[],
): string[] {
  const kindOf = (path: string): string | undefined =>
    kinds.find(
      (kind) =>
        path.startsWith(`${folder}${kind}`) &&
        !/^[a-z]/.test(path.slice(folder.length + kind.length)),
    );
  return files.flatMap((file) =>
    targets(file)
      .filter((path) => {
        const kinds = [kindOf(file.path), kindOf(path)];
        return !kinds.includes(undefined) && kinds[0] !== kinds[1];
      })
      .map((path) => `${file.path} imports ${path}, another adapter`),
  );
}

/** Circles of imports, type-only imports included, each as the way round. */
export function circularImports(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const done = new Set<string>();
  const circles: string[] = [];
  const walk = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) circles.push([...trail.slice(trail.indexOf(path)), path].join(" > "));
    if (done.has(path) || trail.includes(path)) return;
    for (const next of targets(byPath.get(path) ?? sourceFile(path, "")))
      walk(next, [...trail, path]);
    done.add(path);
  };
  for (const file of files) walk(file.path, []);
  return circles;
}

const emptyNames =
  /^(?:utils?|helpers?|common|shared|misc|managers?|types?|index)$|(?:Utils?|Helpers?|Manager)$/;

/** Names of files and folders that are not camelCase, or too general. */
export function nameViolations(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => {
    const names = file.path.replace(/\.tsx?$/, "").split("/");
    if (names.some((name) => !/^[a-z][a-zA-Z0-9]*$/.test(name)))
      return [`${file.path} is not named in camelCase`];
    return names.some((name) => emptyNames.test(name))
      ? [`${file.path} has a name that says nothing`]
      : [];
  });
}

const forbiddenCode: readonly (readonly [RegExp, string])[] = [
  [/\bexport\s+default\b|\bas\s+default\b/, "a default export"],
  [/\bexport\s*\*/, "an export of everything"],
  [/(?<![.\w$])enum\s+[\w$]/, "an enum"],
  [/(?<![.\w$])(?:namespace|module)\s+[\w$"]/, "a namespace"],
  [
    /(?<![.\w$])(?:import|require)\s*\((?!\s*"\d+"\s*[,)])/,
    "an import whose name is not plain text",
  ],
];
const forbiddenComments: readonly (readonly [RegExp, string])[] = [
  [/\b(?:TODO|FIXME|XXX|HACK)\b/, "a note of unfinished work"],
  [/\b(?:eslint|oxlint)-disable|@ts-(?:ignore|expect-error|nocheck)\b/, "a check turned off"],
];

/** What the style rules forbid in any file. */
export function styleViolations(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => {
    const comments = file.text.comments.join("\n");
    return [
      ...forbiddenCode.filter(([pattern]) => pattern.test(file.text.code)),
      ...forbiddenComments.filter(([pattern]) => pattern.test(comments)),
    ].map(([, name]) => `${file.path} has ${name}`);
  });
}

/**
 * A TypeScript source in a form that regular expressions can search without being
 * misled by comments or strings.
 */
export interface SourceText {
  /** The source with every comment blank and every string literal replaced by `"<index>"`. Lines stay lines. */
  readonly code: string;
  /** The raw texts of the string literals, by that index. */
  readonly literals: readonly string[];
  /** All comments, with their marks. */
  readonly comments: readonly string[];
}

// A slash after one of these begins a regular expression; after anything else it divides.
const beforeRegularExpression =
  /(?:[(,=:[!&|?{};+\-*%^~>]|\b(?:return|typeof|case|in|of|do|else|void|delete))$/;
const comment = /\/\/[^\n]*|\/\*[^]*?\*\//y;
const quoted = /"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'/y;
const regularExpression = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const templateText = /(?:[^`\\$]|\\[^]|\$(?!\{))*/y;

/** Takes a source apart. Throws on a source that ends within a template, which no compiler would take either. */
function readSourceText(source: string): SourceText {
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
