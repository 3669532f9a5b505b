import { describe, expect, test } from "bun:test";
import { keys } from "../../src/administration/keys.ts";
import { readInput } from "../../src/administration/operation.ts";
import { operations } from "../../src/administration/operations.ts";
import { InvalidValue } from "../../src/administration/values.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { commandLine } from "../../src/main.ts";

describe("the list of operations", () => {
  test("has each name and each route once", () => {
    const names = operations.map(({ name }) => name);
    const routes = operations.flatMap(({ route }) => route ?? []);
    expect(names).toEqual([...new Set(names)]);
    expect(routes).toEqual([...new Set(routes)]);
  });

  // The guard of the console knows a change by its method.
  test("has GET for what changes nothing, and POST for the others", () => {
    for (const { name, route, effects } of operations) {
      if (route === undefined) expect([name, effects]).toEqual([name, []]);
      else expect([name, route.split(" ")[0]]).toEqual([name, effects.length > 0 ? "POST" : "GET"]);
    }
  });

  test("has a field for each name in a path, and one line of description", () => {
    for (const { name, route = "", input, doc } of operations) {
      for (const [, field = ""] of route.matchAll(/:(\w+)/g))
        expect([name, input[field]?.isRequired]).toEqual([name, true]);
      expect(doc).not.toMatch(/^$|\n/);
    }
  });

  test("has the command of each operation that has no route", async () => {
    const program = await commandLine(["help"]);
    for (const { name, route } of operations) {
      const [first, second] = name.split(" ");
      const group = program.commands.find((one) => one.name() === first);
      const found = second ? group?.commands.find((one) => one.name() === second) : group;
      if (route === undefined) expect([name, found === undefined]).toEqual([name, false]);
    }
  });
});

describe("the settings of a key", () => {
  const now = Date.parse("2026-06-15T12:00:00Z");
  const [create, set] = ["keys create", "keys set"].map((name) => {
    const found = keys.operations.find((one) => one.name === name);
    if (found === undefined) throw new Error(`there is no ${name}`);
    return found;
  }) as [(typeof keys.operations)[number], (typeof keys.operations)[number]];
  const texts = {
    label: "laptop",
    expires: "30d",
    rpm: "60",
    tpm: "0",
    concurrent: "2",
    models: "small, gi*",
    budget: "12.5",
  };

  test("are read", () => {
    const values = {
      label: "laptop",
      expires: now + 30 * DAY_MS,
      rpm: 60,
      tpm: 0,
      concurrent: 2,
      models: ["small", "gi*"],
      budget: 12_500_000_000n,
    };
    expect(readInput(create, { account: "a", ...texts }, now)).toEqual({ account: "a", ...values });
    expect(readInput(set, { id: "key_1", ...texts }, now)).toEqual({ id: "key_1", ...values });
  });

  test("are removed by `none`, if the key exists", () => {
    const none = Object.fromEntries(Object.keys(texts).map((name) => [name, "none"]));
    const removed = Object.fromEntries(Object.keys(texts).map((name) => [name, null]));
    expect(readInput(set, { id: "key_1", ...none }, now)).toEqual({ id: "key_1", ...removed });
    const created = readInput(create, { account: "a", label: "none" }, now);
    expect(created).toMatchObject({ label: "none" });
  });

  test.each<[keyof typeof texts, string]>([
    ["label", ""],
    ["expires", "yesterday"],
    ["rpm", "none"],
    ["tpm", "-1"],
    ["concurrent", "1.5"],
    ["models", "a,,b"],
    ["budget", "0"],
  ])("are refused with the name of a wrong one: %s", (name, text) => {
    let error: unknown;
    try {
      readInput(create, { account: "a", ...texts, [name]: text }, now);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(InvalidValue);
    expect(error).toMatchObject({ field: name });
  });
});
