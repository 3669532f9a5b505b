// Why the gateway has an HTTP client of its own: what a request and a stream cost with it and with the
// alternatives, measured in one run on this machine, each client in a process of its own.
//
//   bun bench/upstreamClients.ts [--undici FOLDER]
//
// FOLDER is the folder of an installed undici package; without it that column stays empty. The figures are
// CPU microseconds of the whole process. Those of one run may be compared with each other, and with no others.

import { parseArgs } from "node:util";
import type { RunResult } from "./upstreamClientRun.ts";
import type { VariantName } from "./upstreamLoad.ts";

const AT_ONCE = [64, 256, 1000];
const RUN_MS_MAX = 30_000;
const VARIANTS: VariantName[] = [
  "Bun.connect client",
  "fetch",
  "fetch, limit lifted",
  "undici Pool",
  "node:http Agent",
];

const { values } = parseArgs({ options: { undici: { type: "string" } } });

async function startProvider(): Promise<{ origin: string; stop: () => void }> {
  const file = new URL("./upstreamProvider.ts", import.meta.url).pathname;
  const child = Bun.spawn([process.execPath, file], { stdout: "pipe", stderr: "inherit" });
  const { value } = await child.stdout.getReader().read();
  const port = Number(new TextDecoder().decode(value));
  return { origin: `http://127.0.0.1:${port}`, stop: () => child.kill() };
}

async function run(variant: VariantName, mode: string, atOnce: number): Promise<string> {
  if (variant === "undici Pool" && values.undici === undefined) {
    return "not measured";
  }
  const [provider, other] = await Promise.all([startProvider(), startProvider()]);
  const file = new URL("./upstreamClientRun.ts", import.meta.url).pathname;
  const lifted = variant === "fetch, limit lifted";
  const child = Bun.spawn(
    [process.execPath, file, variant, mode, String(atOnce), provider.origin, other.origin].concat(
      values.undici ?? [],
    ),
    {
      env: { ...process.env, ...(lifted ? { BUN_CONFIG_MAX_HTTP_REQUESTS: "65336" } : {}) },
      stdout: "pipe",
      stderr: "inherit",
      timeout: RUN_MS_MAX,
    },
  );
  const text = await child.stdout.text();
  provider.stop();
  other.stop();
  if (text === "") {
    return "did not end";
  }
  const result = JSON.parse(text) as RunResult;
  return "words" in result ? result.words : result.figure.toFixed(mode === "other" ? 2 : 1);
}

async function row(label: string, mode: string, atOnce: number): Promise<string> {
  const cells: string[] = [];
  for (const variant of VARIANTS) {
    cells.push(await run(variant, mode, atOnce));
  }
  return `| ${[label, ...cells].join(" | ")} |`;
}

console.log(`Bun ${Bun.version}, ${navigator.hardwareConcurrency} cores, plain HTTP on loopback\n`);
console.log(`| | ${VARIANTS.join(" | ")} |`);
console.log(`|---|${VARIANTS.map(() => "---").join("|")}|`);
for (const atOnce of AT_ONCE) {
  console.log(await row(`CPU us per JSON request, ${atOnce} at once`, "json", atOnce));
}
for (const atOnce of AT_ONCE) {
  console.log(await row(`CPU us per event, ${atOnce} streams open`, "streams", atOnce));
}
for (const atOnce of [0, 1000]) {
  console.log(
    await row(`ms for a request to another server, ${atOnce} streams held`, "other", atOnce),
  );
}
