import { expect, test } from "bun:test";
import { exampleConfig } from "../../src/config/load.ts";
import { loadText } from "./loadText.ts";

// Bad as every kind of value: it is no duration, address, word of a list, id, header value or file.
const canary = "CANARY \u0007 -, *";

/** Every setting of the example that is a text, switched on, as its line number and the two parts around its value. */
const lines = exampleConfig()
  .replaceAll(/^#(?! )/gm, "")
  .split("\n");
const places = lines.flatMap((line, index) => {
  const match = /^([a-z_]+ = )"[^"]*"/.exec(line);
  return match === null ? [] : [[line.split(" ")[0] ?? "", index, match[1] ?? ""] as const];
});

test("the places are found", () => expect(places.length).toBeGreaterThan(30));

test.each(places)("the value of %s (line index %i) is in no message", (_, index, start) => {
  const environment = { CANARY: canary, OPENAI_API_KEY: "CANARY" };
  const written = [`${start}"\${CANARY}"`, `${start}${JSON.stringify(canary)}`];
  for (const line of written) {
    const text = lines.with(index, line).join("\n");
    const { problems, warnings } = loadText(text, { environment, mode: 0o644 });
    const said = [...problems, ...warnings].join("\n");
    // A name that is wrong in the file itself is repeated: the operator looks for it there.
    const isName = /^(?:id|provider) /.test(start) && line !== written[0];
    if (!isName) expect(said).not.toContain("CANARY");
    expect(problems.length).toBeGreaterThan(0);
  }
});

test("a value whose type is wrong is in no message", () => {
  const text =
    'server = "CANARY"\nmodels = "CANARY"\nproviders = [{ api_key = ["CANARY"], headers = "CANARY" }]';
  const { problems } = loadText(text);
  expect(problems).toHaveLength(6);
  expect(problems.join("\n")).not.toContain("CANARY");
});
