import { expect, test } from "bun:test";
import { join } from "node:path";
import { extraFields, extraTools, type Extra } from "../../src/contract/extras.ts";
import { codeOf, rowsUnder } from "./markdownTable.ts";

const document = await Bun.file(join(import.meta.dir, "../../docs/http-api.md")).text();

test.each<[heading: string, extras: readonly Extra[]]>([
  ["What costs more than tokens", extraTools],
  ["Fields that cost more than tokens", extraFields],
])("docs/http-api.md lists every extra under %j", (heading, extras) => {
  const listed = rowsUnder(document, heading).map(([name, bills, price = "none"]) => [
    codeOf(name),
    bills,
    codeOf(price),
  ]);
  expect(listed).toEqual(extras.map(({ name, bills, price = "none" }) => [name, bills, price]));
});
