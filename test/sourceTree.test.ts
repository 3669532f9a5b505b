import { describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import {
  adapterViolations,
  circularImports,
  faceViolations,
  nameViolations,
  ownerViolations,
  rankViolations,
  readSourceTree,
  sourceFile,
  sourceTree,
  styleViolations,
  type Power,
} from "./support/sourceTree.ts";

/** From top to bottom. Imports go strictly down; what stands in one line are strangers. */
const ranks = [
  ["main"],
  ["commands"],
  ["http"],
  ["app"],
  ["gateway"],
  ["routing", "billing", "limits", "auth"],
  ["providers", "store", "telemetry"],
  ["config"],
  ["contract"],
  ["lib"],
];

/** The only files of these folders that the rest of the tree may import. */
const faces = {
  store: ["src/store/store.ts"],
  providers: [
    "src/providers/provider.ts",
    "src/providers/registry.ts",
    "src/providers/upstream.ts",
  ],
};

const adapterKinds = ["openai", "anthropic", "gemini"];

const powers: readonly Power[] = [
  { name: "Elysia", packages: ["elysia", "@elysiajs"], owners: ["src/http/"] },
  {
    name: "the database",
    packages: ["drizzle-orm", "bun:sqlite", "node:sqlite"],
    owners: ["src/store/"],
  },
  { name: "TypeBox", packages: ["@sinclair/typebox"], owners: ["src/contract/", "src/config/"] },
  { name: "commander", packages: ["commander"], owners: ["src/main.ts", "src/commands/"] },
  { name: "pino", packages: ["pino"], owners: ["src/telemetry/"] },
  { name: "prom-client", packages: ["prom-client"], owners: ["src/telemetry/"] },
  { name: "TOML", packages: ["smol-toml"], code: /\bTOML\b/, owners: ["src/config/"] },
  {
    name: "a socket of its own to the outside",
    packages: ["node:http", "node:https", "node:http2", "http", "https", "http2", "undici"],
    code: /\bBun\s*\.\s*connect\b|\{[^{}]*\bconnect\b[^{}]*\}\s*=\s*Bun\b|\b(?:net|tls)\s*\.\s*connect\b|\bcreateConnection\b|\bnew\s+WebSocket\b/,
    // The second only asks whether anybody still listens on a unix socket of this machine.
    owners: ["src/providers/http/connection.ts", "src/commands/serve/listener.ts"],
  },
  {
    // It runs 256 requests at once at most and decompresses without a bound. A method called fetch is no call of it.
    name: "fetch",
    code: /\b(?:globalThis|Bun|self)\s*\.\s*fetch\b|(?<![\w$.]|\bfunction\s)fetch\s*\((?![^()]*(?:\([^()]*\)[^()]*)*\)\s*(?::[^;=,)]*)?\{)|[=:(,?]\s*fetch\s*[;,)\n]/,
    owners: [],
  },
  {
    name: "the environment",
    packages: ["process", "node:process"],
    code: /\b(?:process|Bun|import\s*\.\s*meta)\s*\.\s*env\b|\{[^{}]*\benv\b[^{}]*\}\s*=\s*(?:process|Bun|import)\b/,
    owners: ["src/config/load.ts"],
  },
  {
    name: "the console",
    code: /(?<![\w$])console\s*[.[]|=\s*console\b/,
    owners: ["src/commands/cli/print.ts"],
  },
  {
    name: "the end of the process",
    code: /\bprocess\s*\.\s*(?:exit|abort|reallyExit)\b/,
    owners: ["src/main.ts"],
  },
  {
    // A stranger's text goes through parseUntrusted. The others read what this project itself wrote.
    name: "JSON.parse",
    code: /\bJSON\s*\.\s*parse\b|=\s*JSON\b(?!\s*\.)/,
    owners: [
      "src/lib/untrustedJson.ts",
      "src/lib/exactJson.ts",
      "src/lib/json.ts",
      "src/store/",
      "src/commands/demo/",
      "src/telemetry/log.ts",
    ],
  },
  { name: "SQL made of text", code: /\bsql\s*\.\s*(?:raw|identifier)\b/, owners: [] },
];

const files = await readSourceTree(resolve(import.meta.dir, ".."), "src");

describe("the tree", () => {
  test("is there to be looked at", () => expect(files.length).toBeGreaterThan(0));
  test("imports strictly down the ranks", () => expect(rankViolations(files, ranks)).toEqual([]));
  test("meets a folder by its face only", () => expect(faceViolations(files, faces)).toEqual([]));
  test("leaves each power to its owner", () => expect(ownerViolations(files, powers)).toEqual([]));
  test("keeps adapters strangers to each other", () =>
    expect(adapterViolations(files, "src/providers/", adapterKinds)).toEqual([]));
  test("has no circular imports", () => expect(circularImports(files)).toEqual([]));
  test("has names that say something", () => expect(nameViolations(files)).toEqual([]));
  test("keeps to the house style", () => expect(styleViolations(files)).toEqual([]));
});

const empty = "export const nothing = 0;";

describe("the rank check", () => {
  test.each([
    ["src/lib/a.ts", "../config/load.ts", "src/config/load.ts"],
    ["src/billing/a.ts", "../routing/b.ts", "src/routing/b.ts"],
    ["src/store/a.ts", "../providers/b.ts", "src/providers/b.ts"],
    ["src/gateway/a.ts", "../app.ts", "src/app.ts"],
    ["src/gateway/deep/a.ts", "../../http/b.ts", "src/http/b.ts"],
    ["src/app.ts", "./main.ts", "src/main.ts"],
  ])("refuses that %s imports %s, also as a type", (path, specifier, imported) => {
    for (const word of ["import", "import type"]) {
      const files = sourceTree({
        [path]: `${word} { A } from "${specifier}"; export const a: A = A;`,
        [imported]: empty,
      });
      expect(rankViolations(files, ranks)).toEqual([
        `${path} imports ${imported}, which is not below it`,
      ]);
    }
  });

  test("refuses files without a rank, outside src, and that do not exist", () => {
    const files = sourceTree({
      "src/plugins/a.ts": empty,
      "src/lib/a.ts": 'import type { A } from "../../test/a.ts";',
      "src/lib/b.ts": 'import type { A } from "./a";',
    });
    expect(rankViolations(files, ranks)).toEqual([
      "src/plugins/a.ts has no rank",
      "src/lib/a.ts imports test/a.ts, which is outside src",
      "src/lib/b.ts imports src/lib/a, which does not exist (name it with its .ts)",
    ]);
  });

  test("allows what lies below and what lies within the folder", () => {
    const files = sourceTree({
      "src/main.ts": 'import { a } from "./app.ts"; a();',
      "src/app.ts": 'import { a } from "./gateway/a.ts"; export { a };',
      "src/config/load.ts": 'import text from "../../example.toml" with { type: "text" }; text;',
      "src/gateway/a.ts": 'import { b } from "./deep/b.ts"; import { c } from "../lib/c.ts"; b(c);',
      "src/gateway/deep/b.ts":
        'import type { C } from "../../lib/c.ts"; export const b = (c: C) => c;',
      "src/lib/c.ts": empty,
    });
    expect(rankViolations(files, ranks)).toEqual([]);
  });
});

describe("the face check", () => {
  const files = sourceTree({
    "src/app.ts":
      'import type { A } from "./store/schema.ts"; import { b } from "./store/store.ts"; b();',
    "src/store/store.ts": 'import { c } from "./schema.ts"; c();',
    "src/store/schema.ts": empty,
  });

  test("refuses the inside of a folder to the outside only", () => {
    expect(faceViolations(files, faces)).toEqual([
      "src/app.ts imports src/store/schema/schema.ts, which is not a face of store",
    ]);
  });
});

describe("the owner check", () => {
  test.each([
    ["Elysia", 'import { Elysia } from "elysia"; new Elysia();'],
    ["Elysia", 'import type { Context } from "elysia/context";'],
    ["the database", 'import { sql } from "drizzle-orm"; sql;'],
    ["the database", 'import type { Database } from "bun:sqlite";'],
    ["TypeBox", 'import { Type } from "@sinclair/typebox"; Type;'],
    ["commander", 'import { Command } from "commander"; Command;'],
    ["pino", 'import { pino } from "pino"; pino();'],
    ["prom-client", 'import { register } from "prom-client"; register;'],
    ["TOML", "Bun.TOML.parse(text);"],
    ["a socket of its own to the outside", "await Bun.connect({ hostname, port, socket });"],
    ["a socket of its own to the outside", "const { connect } = Bun;"],
    ["a socket of its own to the outside", 'import { request } from "node:https"; request();'],
    ["fetch", "const answer = await fetch(url, { method: `POST` });"],
    ["fetch", "await fetch(address(url));\nfunction next() {}"],
    ["fetch", "return globalThis.fetch(url);"],
    ["fetch", "const send = fetch;"],
    ["fetch", "open(config, fetch);"],
    ["the environment", 'const home = process.env["HOME"];'],
    ["the environment", "const { HOME } = Bun.env;"],
    ["the environment", "const { env, argv } = process;"],
    ["the environment", 'import { env } from "node:process"; env;'],
    ["the console", "console.log(1);"],
    ["the console", "something ?? globalThis.console.error(1);"],
    ["the console", "const { log } = console;"],
    ["the end of the process", "process.exit(1);"],
    ["JSON.parse", "const value: unknown = JSON.parse(text);"],
    ["JSON.parse", "const { parse } = JSON;"],
    ["SQL made of text", "db.run(sql.raw(text));"],
  ])("refuses %s to a stranger: %j", (name, source) => {
    const stranger = sourceFile("src/limits/a.ts", source);
    expect(ownerViolations([stranger], powers)).toEqual([
      expect.stringMatching(new RegExp(`^src/limits/a\\.ts uses ${name}, which belongs to`)),
    ]);
  });

  test.each([
    ["src/http/server.ts", 'import { Elysia } from "elysia"; new Elysia();'],
    ["src/store/open.ts", 'import { drizzle } from "drizzle-orm/bun-sqlite"; drizzle();'],
    ["src/config/load.ts", "const { HOME } = process.env;"],
    ["src/commands/cli/print.ts", "console.log(1);"],
    ["src/main.ts", "process.exit(1);"],
    ["src/providers/http/connection.ts", "await Bun.connect({ hostname });"],
    ["src/commands/demo/a.ts", "Bun.serve({ fetch(request) { return answer(request); } });"],
    ["src/commands/demo/a.ts", "Bun.serve({ fetch: (request) => answer(request) });"],
    [
      "src/commands/demo/a.ts",
      "const edges = { async fetch(url: string, more = f(1)): Promise<Response> { return x; } };",
    ],
    [
      "src/lib/a.ts",
      '// fetch(url) and console.log, process.env\nconst text = "fetch(url) console.log process.env";',
    ],
    ["src/lib/a.ts", "process.exitCode = 1; prefetch(url); this.fetch(url);"],
  ])("allows %s to say %j", (path, source) => {
    expect(ownerViolations([sourceFile(path, source)], powers)).toEqual([]);
  });
});

describe("the adapter check", () => {
  test("refuses an adapter what another does, and allows its own parts and what all share", () => {
    const files = sourceTree({
      "src/providers/openai.ts": 'import { a } from "./anthropic.ts"; a();',
      "src/providers/openaiStream.ts": 'import type { A } from "./gemini/stream.ts";',
      "src/providers/anthropic.ts":
        'import { a } from "./anthropicStream.ts"; import { b } from "./provider.ts"; a(b);',
      "src/providers/registry.ts":
        'import { a } from "./openai.ts"; import { b } from "./anthropic.ts"; a(b);',
    });
    expect(adapterViolations(files, "src/providers/", adapterKinds)).toEqual([
      "src/providers/openai.ts imports src/providers/anthropic.ts, another adapter",
      "src/providers/openaiStream.ts imports src/providers/gemini/stream.ts, another adapter",
    ]);
  });
});
