import { expect, test } from "bun:test";
import { join } from "node:path";
import { services } from "../../src/gateway/interfaces.ts";
import { tableUnder } from "./markdownTable.ts";

const page = await Bun.file(join(import.meta.dir, "../../docs/http-api.md")).text();

test("docs/http-api.md has the table of endpoints over routes", () => {
  const [[, ...endpoints] = [], , ...rows] = tableUnder(page, "Native and translated calls");
  const listed = rows.map(([route = "", ...cells]) => [
    route.replaceAll("`", ""),
    Object.fromEntries(endpoints.map((endpoint, at) => [endpoint, cells[at]])),
  ]);
  expect(Object.fromEntries(listed)).toEqual(services);
});
