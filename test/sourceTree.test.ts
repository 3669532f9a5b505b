import { describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import {
  adapterViolations,
  circularImports,
  eagerImports,
  faceViolations,
  nameViolations,
  ownerViolations,
  rankViolations,
  readSourceTree,
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
  ["gateway", "administration", "database"],
  ["routing", "billing", "limits", "auth", "notices"],
  ["providers", "store", "telemetry"],
  ["config", "web"],
  ["contract"],
  ["lib"],
];

/** The only files of these folders that the rest of the tree may import. */
const faces = {
  store: ["src/store/store.ts", "src/store/open.ts"],
  providers: [
    "src/providers/dialect/adaptChat.ts",
    "src/providers/dialect/dialect.ts",
    "src/providers/provider.ts",
    "src/providers/registry.ts",
    "src/providers/upstream.ts",
  ],
  // The code of the pages runs in browsers. It is bundled, and nothing imports it.
  web: [],
};

/** Loaded only if configured, to keep the start fast. */
const onDemand = [
  "src/telemetry/otlp.ts",
  "src/telemetry/prometheus.ts",
  "src/notices/mail.ts",
  "src/providers/http/tunnel.ts",
];

const adapterKinds = ["openai", "anthropic", "gemini"];

const powers: readonly Power[] = [
  { name: "Elysia", packages: ["elysia", "@elysiajs"], owners: ["src/http/"] },
  {
    name: "the database",
    packages: ["drizzle-orm", "bun:sqlite", "node:sqlite"],
    owners: ["src/store/"],
  },
  {
    name: "the limits server",
    code: /\bRedisClient\b|\bBun\s*\.\s*redis\b|\{[^{}]*\bredis\b[^{}]*\}\s*(?:=\s*Bun\b|from\s*"bun")/,
    owners: ["src/limits/server/"],
  },
  {
    name: "TypeBox",
    packages: ["@sinclair/typebox"],
    owners: ["src/contract/", "src/administration/", "src/http/"],
  },
  { name: "commander", packages: ["commander"], owners: ["src/main.ts", "src/commands/"] },
  { name: "prom-client", packages: ["prom-client"], owners: ["src/telemetry/"] },
  {
    name: "calls of the C library",
    packages: ["bun:ffi"],
    owners: ["src/lib/libc.ts"],
  },
  {
    name: "child processes",
    packages: ["node:child_process", "child_process"],
    code: /\bBun\s*\.\s*spawn/,
    owners: ["src/providers/keys/keyCommand.ts", "src/commands/serve/processes.ts"],
  },
  { name: "nodemailer", packages: ["nodemailer"], owners: ["src/notices/"] },
  { name: "SOCKS", packages: ["socks"], owners: ["src/providers/http/tunnel.ts"] },
  { name: "TOML", packages: ["smol-toml"], code: /\bTOML\b/, owners: ["src/config/"] },
  {
    name: "a socket of its own to the outside",
    packages: ["node:http", "node:https", "node:http2", "http", "https", "http2", "undici"],
    code: /\bBun\s*\.\s*connect\b|\{[^{}]*\bconnect\b[^{}]*\}\s*=\s*Bun\b|\b(?:net|tls)\s*\.\s*connect\b|\bcreateConnection\b|\bnew\s+WebSocket\b/,
    // The last only asks whether anybody still listens on a unix socket of this machine.
    owners: [
      "src/providers/http/connection.ts",
      "src/providers/http/tunnel.ts",
      "src/commands/serve/listener.ts",
    ],
  },
  {
    // It runs 256 requests at once at most and decompresses without a bound. A method called fetch is no call of it.
    name: "fetch",
    code: /\b(?:globalThis|Bun|self)\s*\.\s*fetch\b|(?<![\w$.]|\bfunction\s)fetch\s*\((?![^()]*(?:\([^()]*\)[^()]*)*\)\s*(?::[^;=,)]*)?\{)|[=:(,?]\s*fetch\s*[;,)\n]/,
    // The second and the third send one request to the gateway on the same machine.
    owners: ["src/web/", "src/administration/reports/breakers.ts", "src/commands/healthcheck.ts"],
  },
  {
    name: "Preact",
    packages: ["preact", "@preact/signals"],
    owners: ["src/web/"],
  },
  {
    name: "uPlot",
    packages: ["uplot"],
    owners: ["src/web/charts/"],
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
      "src/lib/jsonObject.ts",
      "src/lib/outline.ts",
      "src/lib/exactJson.ts",
      "src/lib/json.ts",
      "src/web/api.ts",
      "src/store/",
      "src/commands/demo/",
    ],
  },
  { name: "SQL made of text", code: /\bsql\s*\.\s*(?:raw|identifier)\b/, owners: [] },
];

const files = await readSourceTree(resolve(import.meta.dir, ".."), "src");

describe("the source tree", () => {
  test("was found", () => expect(files.length).toBeGreaterThan(0));
  test("imports strictly down the ranks", () => expect(rankViolations(files, ranks)).toEqual([]));
  test("imports a folder through its face only", () =>
    expect(faceViolations(files, faces)).toEqual([]));
  test("lets only the owner use a power", () => expect(ownerViolations(files, powers)).toEqual([]));
  test("has no adapter that imports another", () =>
    expect(adapterViolations(files, "src/providers/", adapterKinds)).toEqual([]));
  test("loads metrics, traces, mail and tunnels on demand", () =>
    expect(eagerImports(files, onDemand)).toEqual([]));
  test("has no circular imports", () => expect(circularImports(files)).toEqual([]));
  test("has file names that describe their content", () =>
    expect(nameViolations(files)).toEqual([]));
  test("follows the code style", () => expect(styleViolations(files)).toEqual([]));
});

test("each check reports a violation", () => {
  const planted = sourceTree({
    "src/lib/a.ts": 'import { b } from "../config/utils.ts"; b(process.env["HOME"]);',
    "src/config/utils.ts": 'import { c } from "../store/schema.ts"; c(); // TODO',
    "src/store/schema.ts": 'import type { A } from "../lib/a.ts"; export const c = 0;',
    "src/providers/openai.ts": 'import { a } from "./anthropic.ts"; a();',
    "src/providers/anthropic.ts": "export const a = 0;",
    "src/telemetry/otlp.ts": "export const a = 0;",
    "src/telemetry/log.ts":
      'import type { A } from "./otlp.ts"; const b = import("./otlp.ts");\nimport {\n  a,\n} from "./otlp.ts";',
  });
  const found = [
    rankViolations(planted, ranks),
    faceViolations(planted, faces),
    ownerViolations(planted, powers),
    adapterViolations(planted, "src/providers/", adapterKinds),
    circularImports(planted),
    eagerImports(planted, onDemand),
    nameViolations(planted),
    styleViolations(planted),
  ];
  expect(found.map((violations) => violations.length)).toEqual([2, 1, 1, 1, 1, 1, 1, 1]);
});
