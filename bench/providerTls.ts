// What the way to a provider over TLS costs: new connections, the time to the first byte, CPU, with a round trip of 40 ms:
//
//   bun bench/providerTls.ts [--against FOLDER] [--rounds N] [--only LOAD,LOAD] [--moved]
//
// Our own client of HTTP/1.1 takes turns with Bun's two clients of HTTP/2, `node:http2` and the experimental one of `fetch`, and
// with our client of another checkout. Provider, network and client are processes of their own on this machine. The CPU time is
// that of the client's process, user and system, for each request.
//
// --moved is another measurement, for root, of seven minutes: 10 requests a second to a name that gets a new address, while the
// old one still answers. It says when the new one gets its first connection, and when the old one loses its last.
import type { Subprocess } from "bun";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { quantile } from "./gateway/figures.ts";
import type { Found } from "./providerTls/caller.ts";

const { values } = parseArgs({
  options: {
    against: { type: "string" },
    rounds: { type: "string", default: "3" },
    only: { type: "string" },
    moved: { type: "boolean", default: false },
  },
});

const relayFile = new URL("./providerTls/relay.ts", import.meta.url);
const vendorFile = new URL("./providerTls/vendor.ts", import.meta.url);
const callerFile = new URL("./providerTls/caller.ts", import.meta.url).pathname;
const projectRoot = resolve(import.meta.dir, "..");
const clients: readonly (readonly [string, string])[] = [
  ["HTTP/1.1", projectRoot],
  ...(values.against ? [["other checkout", resolve(values.against)] as const] : []),
  ["node:http2", "http2"],
  ["fetch, HTTP/2", "fetch"],
];

interface Load {
  readonly name: string;
  readonly words: string;
  /** About CPU: past the relay, whose connections are not counted. */
  readonly isDirect?: true;
}

const loads: readonly Load[] = [
  { name: "new", words: "a request on a new connection" },
  { name: "kept", words: "a request on a kept connection, after another" },
  { name: "steady 10", words: "10 a second, each thought about for 500 ms" },
  { name: "steady 100", words: "100 a second, each thought about for 500 ms" },
  { name: "burst 64", words: "64 at once, no connection open" },
  { name: "burst 64 after one", words: "64 at once, one connection open" },
  { name: "burst 64 again", words: "64 at once, 10 s after 64 others" },
  { name: "burst 64 a minute later", words: "64 at once, 60 s after 64 others" },
  { name: "burst 500", words: "500 at once, no connection open" },
  { name: "closing", words: "the provider closes at about the moment of the next request" },
  { name: "json 64", words: "64 at once for long, without the delay", isDirect: true },
  { name: "streams 64", words: "64 streams of 50 events, without the delay", isDirect: true },
];

/** The first words that a process of the bench prints, one a line; `onLine` gets all others. */
async function start(
  { pathname }: URL,
  words: readonly string[],
  lines: number,
  onLine: (line: string) => void = () => {},
): Promise<{ child: Subprocess; printed: string[] }> {
  const child = Bun.spawn([process.execPath, pathname, ...words], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const printed: string[] = [];
  const ready = Promise.withResolvers<void>();
  void (async () => {
    let rest = "";
    for await (const bytes of child.stdout.pipeThrough(new TextDecoderStream())) {
      const [last = "", ...whole] = (rest + bytes).split("\n").toReversed();
      rest = last;
      for (const line of whole.toReversed()) {
        if (printed.length < lines) printed.push(line);
        else onLine(line);
      }
      if (printed.length === lines) ready.resolve();
    }
  })();
  await ready.promise;
  return { child, printed };
}

interface Row extends Found {
  readonly connections: number;
}

async function measure(client: string, load: Load, vendor: string[]): Promise<Row> {
  const port = vendor[load.name === "closing" ? 1 : 0] ?? "";
  let connections = 0;
  const count = (line: string): void => {
    if (line === "opened") connections += 1;
  };
  const relay = await start(relayFile, ["127.0.0.1", "0", port], 1, count);
  const origin = `https://localhost:${load.isDirect ? port : relay.printed[0]}`;
  const caller = Bun.spawn([process.execPath, callerFile, client, load.name, origin], {
    stdout: "pipe",
    stderr: "inherit",
    timeout: 180_000,
  });
  const text = await caller.stdout.text();
  relay.child.kill();
  if (text === "") throw new Error("it did not end");
  return { ...(JSON.parse(text) as Found), connections };
}

async function compare(): Promise<void> {
  const { child, printed } = await start(vendorFile, [], 2);
  console.log(
    `Bun ${Bun.version}, ${navigator.hardwareConcurrency} cores, round trip 40 ms, ${values.rounds} rounds\n`,
  );
  for (const load of loads) {
    if (values.only && !values.only.split(",").includes(load.name)) continue;
    const rows = new Map<string, Row[]>();
    for (let round = 0; round < Number(values.rounds); round += 1) {
      for (const [name, client] of round % 2 === 0 ? clients : clients.toReversed()) {
        if (load.name === "closing" && name.endsWith("2")) continue;
        try {
          rows.set(name, [...(rows.get(name) ?? []), await measure(client, load, printed)]);
        } catch (error) {
          console.error(`not measured: ${name}, ${load.words}: ${String(error)}`);
        }
      }
    }
    console.log(`| ${load.words} | connections | first byte p50 | p99 ms | CPU us | failed |`);
    console.log("|---|---|---|---|---|---|");
    for (const [name, of] of rows) {
      const median = (read: (row: Row) => number): number => quantile(of.map(read), 0.5) ?? NaN;
      const cells = [
        load.isDirect ? "" : median(({ connections }) => connections),
        median(({ p50 }) => p50).toFixed(1),
        median(({ p99 }) => p99).toFixed(1),
        median(({ cpuUs }) => cpuUs).toFixed(0),
        `${median(({ failures }) => failures)} of ${of[0]?.requests}`,
      ];
      console.log(`| ${[name, ...cells].join(" | ")} |`);
    }
    console.log("");
  }
  child.kill();
}

const HOSTS = "BENCH_HOSTS_MOUNTED";
const MOVED_AFTER_MS = 10_000;

/** Runs this again where `/etc/hosts` is a file of its own. */
async function mountHosts(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-bench-"));
  const hosts = join(folder, "hosts");
  await Bun.write(hosts, "");
  const script = `mount --bind ${hosts} /etc/hosts && exec "$@"`;
  const again = [process.execPath, import.meta.path, "--moved"];
  const child = Bun.spawn(["unshare", "-m", "sh", "-c", script, "sh", ...again], {
    env: { ...process.env, [HOSTS]: "1" },
    stdio: ["ignore", "inherit", "inherit"],
  });
  await child.exited;
  rmSync(folder, { recursive: true });
}

async function move(): Promise<void> {
  const vendor = await start(vendorFile, [], 2);
  const target = vendor.printed[0] ?? "";
  const at = { first: 0, last: 0 };
  const old = await start(relayFile, ["127.0.0.2", "0", target], 1, (line) => {
    if (line === "closed") at.last = performance.now();
  });
  const port = old.printed[0] ?? "";
  const moved = await start(relayFile, ["127.0.0.3", port, target], 1, () => {
    at.first ||= performance.now();
  });
  // The certificate of the tests is one for this name.
  await Bun.write("/etc/hosts", "127.0.0.2 localhost\n");
  const words = [process.execPath, callerFile, projectRoot, "moved", `https://localhost:${port}`];
  const caller = Bun.spawn(words, { stdout: "pipe", stderr: "inherit" });
  await Bun.sleep(MOVED_AFTER_MS);
  await Bun.write("/etc/hosts", "127.0.0.3 localhost\n");
  const movedAt = performance.now();
  const { failures, requests } = JSON.parse(await caller.stdout.text()) as Found;
  const seconds = (ms: number): string => ((ms - movedAt) / 1000).toFixed(1);
  console.log(`first connection to the new address after ${seconds(at.first)} s`);
  console.log(`last connection to the old address closed after ${seconds(at.last)} s`);
  console.log(`failed: ${failures} of ${requests}`);
  for (const { child } of [vendor, old, moved]) child.kill();
}

if (!values.moved) await compare();
else if (process.env[HOSTS] === undefined) await mountHosts();
else await move();
