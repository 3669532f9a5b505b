import type { Subprocess } from "bun";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { configText } from "../../test/support/gateway/gatewayConfig.ts";
import type { Counts } from "./counts.ts";
import { addManyKeys, addManyKeysOnServer } from "./manyKeys.ts";
import { end, openFilesMax, spawn } from "./processes.ts";
import { authorityFile, type Provider } from "./workers.ts";

/** The longest time until a gateway answers. Those in Python take some 20 s. */
const START_MS_MAX = 60_000;
/** Roubles: more than all runs cost together. */
const CREDIT = "1000000000";

const TOKENS_MAX = 100_000_000;

/** Keys of the config that version 0.2.0 does not have. */
const NEW_KEYS = ["processes", "drain_delay", "body_bytes_per_minute"];

/** The models of the benchmark; bench/gateway/provider.ts describes them. */
export const models = [
  "json",
  "stream-20",
  "stream-1",
  "paced-8000",
  "paced-2000",
  "timed-200",
  "flood",
  "silent",
  "bulk",
];

/** One of those that are compared: a process that answers the OpenAI interface on a port. */
export interface Contestant {
  readonly name: string;
  readonly child: Subprocess;
  readonly port: number;
  /** Where the same provider is called over TLS; undefined where that was not set up. */
  readonly secure: { readonly port: number; readonly modelPrefix: string } | undefined;
  /** Additional request headers, each with its line end. */
  readonly headers: string;
  /** The same for each of many keys; empty where there are none. */
  readonly manyHeaders: readonly string[];
  /** Reads what its database server has counted; undefined for one without a server. */
  readonly readCounts?: () => Promise<Counts>;
}

/** Where a contestant runs: its own folder, and the provider. */
export interface Ground {
  readonly folder: string;
  readonly provider: Provider;
  /** A second provider, for those that can have two. */
  readonly other: Provider;
}

/** nginx as a plain proxy: one worker, keep-alive on both sides, nothing buffered, no access log. */
export async function startNginx(binary: string, ground: Ground): Promise<Contestant> {
  const folder = join(ground.folder, "nginx");
  mkdirSync(folder);
  const [port, securePort] = [freePort(), freePort()];
  const config = join(folder, "nginx.conf");
  await Bun.write(config, nginxConfig(folder, ground.provider, port, securePort));
  const logFile = join(folder, "error.log");
  const child = spawn([binary, "-e", logFile, "-p", folder, "-c", config], { logFile });
  await untilAnswers("nginx", child, port, logFile);
  const secure = { port: securePort, modelPrefix: "" };
  return { name: "nginx", child, port, secure, headers: "", manyHeaders: [] };
}

function nginxConfig(folder: string, provider: Provider, port: number, securePort: number): string {
  const many = 1_000_000_000;
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `  ${name}_temp_path ${folder}/${name};`)
    .join("\n");
  const upstream = (name: string, to: number): string => `
  upstream ${name} { server 127.0.0.1:${to}; keepalive 1024; keepalive_requests ${many}; }`;
  const server = (listen: number, target: string): string => `
  server {
    listen 127.0.0.1:${listen} backlog=4096;
    location / { proxy_pass ${target}; }
  }`;
  return `
daemon off;
worker_processes 1;
worker_rlimit_nofile ${Math.min(openFilesMax(), 65_536)};
pid ${folder}/nginx.pid;
${process.getuid?.() === 0 ? "user root;" : ""}
events { worker_connections 16384; }
http {
${temporary}
  access_log off;
  keepalive_requests ${many};
  keepalive_timeout 1h;
  client_max_body_size 32m;
  client_body_buffer_size 512k;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_buffering off;
  proxy_read_timeout 1h;
  proxy_ssl_name localhost;
  proxy_ssl_server_name on;
  proxy_ssl_verify on;
  proxy_ssl_trusted_certificate ${authorityFile};
${upstream("plain", provider.port)}${upstream("secure", provider.securePort)}
${server(port, "http://plain")}${server(securePort, "https://secure")}
}
`;
}

/**
 * The gateway as an operator runs it: keys, balances and charging, durability "power", and the log of every
 * request, which goes to a file. `program` is the executable, or Bun and the arguments that run the source. `databaseUrl`: a
 * PostgreSQL database, which it uses instead of a SQLite file. It is empty, or that of `beside`: a gateway whose account and
 * keys it uses.
 */
export async function startTollgate(
  name: string,
  binary: string,
  ground: Ground,
  {
    program = [binary],
    databaseUrl,
    processes = 1,
    beside,
  }: {
    readonly program?: readonly string[];
    readonly databaseUrl?: string;
    /** How many processes serve. */
    readonly processes?: number;
    readonly beside?: Contestant;
  } = {},
): Promise<Contestant> {
  const folder = join(ground.folder, name);
  mkdirSync(folder);
  const text = tollgateConfig(ground, databaseUrl)
    .replace(/^processes = \d+$/m, `processes = ${processes}`)
    .replace(await unknownKeys(binary, folder), "");
  await Bun.write(join(folder, "config.toml"), text, { mode: 0o600 });
  const { headers, manyHeaders } = beside ?? (await createKeys(binary, folder, databaseUrl));
  const logFile = join(folder, "tollgate.log");
  const serve = [...program, "serve", "--config", join(folder, "config.toml")];
  const child = spawn(serve, { logFile, env: { PATH: process.env["PATH"] ?? "" } });
  const port = await portInLog(name, child, logFile);
  const secure = { port, modelPrefix: "tls:" };
  return { name, child, port, secure, headers, manyHeaders };
}

async function createKeys(
  binary: string,
  folder: string,
  databaseUrl: string | undefined,
): Promise<Pick<Contestant, "headers" | "manyHeaders">> {
  command(binary, folder, "accounts", "create", "bench");
  command(binary, folder, "balance", "credit", "bench", CREDIT);
  const issued = command(binary, folder, "keys", "create", "--account", "bench", "--json");
  const { key } = JSON.parse(issued) as { key: string };
  const keys = databaseUrl
    ? await addManyKeysOnServer(databaseUrl)
    : addManyKeys(join(folder, "tollgate.db"));
  return { headers: bearer(key), manyHeaders: keys.map(bearer) };
}

function bearer(key: string): string {
  return `Authorization: Bearer ${key}\r\n`;
}

/** The result of the audit of a gateway's database after its run. Throws if it finds problems. */
export function auditTollgate(name: string, binary: string, ground: Ground): string {
  return command(binary, join(ground.folder, name), "audit").trim();
}

function tollgateConfig({ provider, other }: Ground, databaseUrl: string | undefined): string {
  const prefixes = { plain: "", tls: "tls:", other: "other:" };
  return configText({
    providers: {
      plain: `http://127.0.0.1:${provider.port}/v1`,
      tls: { base_url: `https://localhost:${provider.securePort}/v1`, ca_file: authorityFile },
      other: `http://127.0.0.1:${other.port}/v1`,
    },
    models: Object.entries(prefixes).flatMap(([id, prefix]) =>
      models.map((model) => ({
        id: prefix + model,
        settings: { max_output_tokens: TOKENS_MAX, context_tokens: TOKENS_MAX },
        routes: [{ provider: id, model }],
      })),
    ),
    sections: {
      database: databaseUrl ? { url: databaseUrl } : { durability: "power" },
      // All requests of a part come from one key.
      limits: { body_bytes_per_minute: "0B" },
    },
  });
}

/** Matches the lines of a config whose keys an older build does not know. */
async function unknownKeys(binary: string, folder: string): Promise<RegExp> {
  const example = join(folder, "example.toml");
  command(binary, folder, "init", example);
  const known = await Bun.file(example).text();
  const unknown = NEW_KEYS.filter((key) => !known.includes(`${key} = `));
  return unknown.length === 0 ? /$^/ : new RegExp(`^(${unknown.join("|")}) = .*\\n`, "gm");
}

function command(binary: string, folder: string, ...words: readonly string[]): string {
  const config = join(folder, "config.toml");
  const { success, stdout, stderr } = Bun.spawnSync([binary, ...words, "--config", config], {
    env: { PATH: process.env["PATH"] ?? "" },
  });
  if (!success) throw new Error(`tollgate ${words[0]}: ${stdout.toString()}${stderr.toString()}`);
  return stdout.toString();
}

/** Bun's own server and client without checks, and without its limit of 256 requests at once. */
export function startPlainBun(ground: Ground): Promise<Contestant> {
  return startBun("plain Bun", ground, []);
}

/** The same with a row committed for each JSON answer, which is the least that accounting can cost. */
export function startBunWithRow(ground: Ground): Promise<Contestant> {
  return startBun("Bun and a row", ground, [join(ground.folder, "rows.db")]);
}

async function startBun(
  name: string,
  ground: Ground,
  more: readonly string[],
): Promise<Contestant> {
  const port = freePort();
  const file = new URL("./plainBun.ts", import.meta.url).pathname;
  const logFile = join(ground.folder, `${name}.log`);
  const words = [process.execPath, file, String(port), String(ground.provider.port), ...more];
  const env = { PATH: process.env["PATH"] ?? "", BUN_CONFIG_MAX_HTTP_REQUESTS: "65336" };
  const child = spawn(words, { logFile, env });
  await untilAnswers(name, child, port, logFile);
  return { name, child, port, secure: undefined, headers: "", manyHeaders: [] };
}

/** Ends a contestant. */
export function stop(contestant: Contestant): Promise<void> {
  return end(contestant.child);
}

export function freePort(): number {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
  listener.stop(true);
  return listener.port;
}

async function portInLog(name: string, child: Subprocess, logFile: string): Promise<number> {
  const find = (): string | undefined =>
    /"address":"http:\/\/127\.0\.0\.1:(\d+)"/.exec(textOf(logFile))?.[1];
  await until(name, child, logFile, () => Promise.resolve(find() !== undefined));
  return Number(find());
}

export async function untilAnswers(
  name: string,
  child: Subprocess,
  port: number,
  logFile: string,
): Promise<void> {
  await until(name, child, logFile, async () => {
    try {
      const socket = await Bun.connect({
        hostname: "127.0.0.1",
        port,
        socket: { data: () => {} },
      });
      socket.end();
      return true;
    } catch {
      return false;
    }
  });
}

async function until(
  name: string,
  child: Subprocess,
  logFile: string,
  isSo: () => Promise<boolean>,
): Promise<void> {
  const deadlineMs = performance.now() + START_MS_MAX;
  while (!(await isSo())) {
    if (child.exitCode !== null || performance.now() > deadlineMs) {
      throw new Error(`${name} did not start: ${textOf(logFile)}`);
    }
    await Bun.sleep(20);
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
