import { describe, expect, test } from "bun:test";
import {
  circularImports,
  nameViolations,
  sourceFile,
  sourceTree,
  styleViolations,
} from "./sourceTree.ts";

const empty = "export const nothing = 0;";

describe("the reader of sources", () => {
  test.each([
    ['import { a } from "./a.ts"; a();', "./a.ts"],
    ['import type { A } from "./a.ts";', "./a.ts"],
    ['import { type A } from "./a.ts";', "./a.ts"],
    ['import type {\n  A,\n  B,\n} from\n  "./a.ts";', "./a.ts"],
    ['import * as a from "./a.ts"; a.a();', "./a.ts"],
    ['import "./a.ts";', "./a.ts"],
    ['export { a } from "./a.ts";', "./a.ts"],
    ['export type { A } from "./a.ts";', "./a.ts"],
    ['export * from "./a.ts";', "./a.ts"],
    ['let a: import("./a.ts").A;', "./a.ts"],
    ['const a = await import("./a.ts");', "./a.ts"],
    ["const a = await import(`./a.ts`);", "./a.ts"],
    ['const a = /["\'`]/.test(b); import c from "./a.ts"; c();', "./a.ts"],
    ['const a = `"${b({ c: `}` })}`; import d from "./a.ts"; d();', "./a.ts"],
    ['import text from "./a.txt" with { type: "text" }; text();', "./a.txt"],
  ])("sees the import in %j", (source, specifier) => {
    expect(sourceFile("src/lib/x.ts", source).imports).toEqual([specifier]);
  });

  test.each([
    ['// import { a } from "./a.ts";'],
    ['/* import { a } from "./a.ts"; */'],
    ['const text = `import { a } from "./a.ts"`;'],
    ["const text = 'import \"./a.ts\"';"],
    ['const bytes = Buffer.from("./a.ts");'],
    ['const url = "http://a/"; // from "./a.ts"'],
  ])("sees no import in %j", (source) => {
    expect(sourceFile("src/lib/x.ts", source).imports).toEqual([]);
  });
});

test("an import that the reader overlooks is an error and no silence", () => {
  const misleading = 'if (a) /"/.test(b); import { c } from "./c.ts"; c("");';
  expect(() => sourceFile("src/lib/x.ts", misleading)).toThrow("overlooks the import of ./c.ts");
});

describe("the check for circles", () => {
  test("finds a circle that only types close, and no other", () => {
    const files = sourceTree({
      "src/lib/a.ts": 'import { b } from "./b.ts"; import { d } from "./d.ts"; b(d);',
      "src/lib/b.ts": 'import { c } from "./c.ts"; import { d } from "./d.ts"; c(d);',
      "src/lib/c.ts": 'import type { A } from "./a.ts";',
      "src/lib/d.ts": empty,
    });
    expect(circularImports(files)).toEqual([
      "src/lib/a.ts > src/lib/b.ts > src/lib/c.ts > src/lib/a.ts",
    ]);
  });
});

describe("the checks of a single file", () => {
  test.each([
    "utils.ts",
    "helpers.ts",
    "common.ts",
    "types.ts",
    "index.ts",
    "keyManager.ts",
    "testHelpers.ts",
    "common/key.ts",
    "Key.ts",
    "rate-limit.ts",
    "rate_limit.ts",
  ])("refuse the name %s", (name) => {
    expect(nameViolations(sourceTree({ [`src/lib/${name}`]: empty }))).toHaveLength(1);
  });

  test.each(["key.ts", "rateLimit.ts", "sha256.ts", "demo/provider.ts", "manage.ts"])(
    "take the name %s",
    (name) => {
      expect(nameViolations(sourceTree({ [`src/lib/${name}`]: empty }))).toEqual([]);
    },
  );

  test.each([
    ["a default export", "export default 1;"],
    ["a default export", "const a = 1; export { a as default };"],
    ["an export of everything", 'export * from "./a.ts";'],
    ["an enum", "enum Status { Open }"],
    ["an enum", "export const enum Status { Open }"],
    ["a namespace", "namespace Money { export const a = 1; }"],
    ["an import whose name is not plain text", "const a = await import(name);"],
    ["an import whose name is not plain text", 'const a = await import("./" + name);'],
    ["a note of unfinished work", "a(); // TODO: the rest"],
    ["a note of unfinished work", "/* FIXME */"],
    ["a check turned off", "// eslint-disable-next-line no-console\na();"],
    ["a check turned off", "// @ts-expect-error it is so\na();"],
  ])("refuse %s: %j", (name, source) => {
    expect(styleViolations(sourceTree({ "src/lib/a.ts": source }))).toEqual([
      `src/lib/a.ts has ${name}`,
    ]);
  });

  test("take ordinary code that speaks of such things", () => {
    const source =
      'const schema = { enum: ["a"], namespace: "TODO" }; // the default export of others\nexport { schema };';
    expect(styleViolations(sourceTree({ "src/lib/a.ts": source }))).toEqual([]);
  });
});
