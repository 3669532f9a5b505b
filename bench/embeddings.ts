// What an embeddings request costs, beside nginx as a plain proxy of the same answers:
//
//   bun run build && bun bench/embeddings.ts [--rounds N]
//
// Figures are CPU time of whole processes, user and system, for each request, and the most memory that a process had.
// Tollgate runs as an operator runs it: keys, charges with durability "power", a log line for each request. The provider
// and the client are in this process and are not measured. Everything is on loopback.
import type { Subprocess } from "bun";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { quantile } from "./gateway/figures.ts";
import { cpuUs, endAll, spawn } from "./gateway/processes.ts";
import { serveBinary, until } from "./gateway/servedBinary.ts";

/** An answer of so many vectors, and how it is asked for. */
interface Size {
  readonly name: string;
  readonly inputs: number;
  readonly format: "float" | "base64";
  readonly atOnce: number;
  readonly requests: number;
}

const DIMENSIONS = 1536;
const sizes: readonly Size[] = [
  { name: "1 vector, numbers", inputs: 1, format: "float", atOnce: 16, requests: 2000 },
  { name: "1 vector, base64", inputs: 1, format: "base64", atOnce: 16, requests: 2000 },
  { name: "2,048 vectors, numbers", inputs: 2048, format: "float", atOnce: 1, requests: 10 },
  { name: "2,048 vectors, base64", inputs: 2048, format: "base64", atOnce: 1, requests: 20 },
];

/** A process that is measured, and how to ask it. */
interface Contestant {
  readonly name: string;
  readonly child: Subprocess;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

const ROUNDS = 5;

const { values } = parseArgs({ options: { rounds: { type: "string" } } });
const folder = mkdtempSync(join(tmpdir(), "tollgate-embeddings-"));

const answers = new Map(
  sizes.map(({ inputs, format }) => [`${inputs} ${format}`, answerOf(inputs, format)]),
);
const provider = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    const { input, encoding_format: format } = (await request.json()) as Record<string, unknown>;
    const count = Array.isArray(input) ? input.length : 1;
    return new Response(answers.get(`${count} ${String(format)}`), {
      headers: { "content-type": "application/json" },
    });
  },
});

/** Numbers as OpenAI writes them, with up to ten digits. */
function answerOf(count: number, format: Size["format"]): Buffer {
  const numbers = Array.from({ length: DIMENSIONS }, (_, at) => Math.sin(at + 1) / 32);
  const vector =
    format === "float"
      ? `[${numbers.map((number) => number.toFixed(10)).join(",")}]`
      : JSON.stringify(Buffer.from(Float32Array.from(numbers).buffer).toString("base64"));
  const data = Array.from(
    { length: count },
    (_, index) => `{"object":"embedding","index":${index},"embedding":${vector}}`,
  );
  const usage = { prompt_tokens: 10 * count, total_tokens: 10 * count };
  return Buffer.from(
    `{"object":"list","data":[${data.join(",")}],"model":"m","usage":${JSON.stringify(usage)}}`,
  );
}

function requestOf({ inputs, format }: Size): string {
  const input = Array.from(
    { length: inputs },
    () => "A text of some length, as a search index has it.",
  );
  return JSON.stringify({ model: "vectors", input, encoding_format: format });
}

async function startNginx(): Promise<Contestant> {
  const place = join(folder, "nginx");
  mkdirSync(place);
  const port = freePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${place}/${name};`)
    .join(" ");
  const config = `
daemon off; worker_processes 1; pid ${place}/nginx.pid; ${process.getuid?.() === 0 ? "user root;" : ""}
events { worker_connections 1024; }
http {
  ${temporary} access_log off; client_max_body_size 32m; client_body_buffer_size 512k;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
  upstream provider { server 127.0.0.1:${provider.port}; keepalive 64; }
  server { listen 127.0.0.1:${port}; location / { proxy_pass http://provider; } }
}`;
  await Bun.write(join(place, "nginx.conf"), config);
  const logFile = join(place, "error.log");
  const nginx = Bun.which("nginx", { PATH: `${process.env["PATH"] ?? ""}:/usr/sbin` });
  if (nginx === null) throw new Error("nginx is not installed: apt-get install -y nginx-light");
  const child = spawn([nginx, "-e", logFile, "-p", place, "-c", join(place, "nginx.conf")], {
    logFile,
  });
  const url = `http://127.0.0.1:${port}/v1/embeddings`;
  await until(async () => (await fetch(url, { method: "POST", body: requestOf(first()) })).ok);
  return { name: "nginx", child, url, headers: {} };
}

async function startTollgate(): Promise<Contestant> {
  const { child, origin, key } = await serveBinary(join(folder, "tollgate"), {
    providers: { local: `http://127.0.0.1:${provider.port}/v1` },
    models: [{ id: "vectors", routes: [{ provider: "local" }], settings: { kind: "embedding" } }],
  });
  const headers = { authorization: `Bearer ${key}` };
  return { name: "tollgate", child, url: `${origin}/v1/embeddings`, headers };
}

function first(): Size {
  const [size] = sizes;
  if (size === undefined) throw new Error("there are no sizes");
  return size;
}

function freePort(): number {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
  listener.stop(true);
  return listener.port;
}

/** Sends the requests of one turn. Resolves with the CPU time and the wall-clock time of each, in microseconds. */
async function turn(contestant: Contestant, size: Size): Promise<{ cpu: number; wall: number }> {
  const body = requestOf(size);
  const expected = answers.get(`${size.inputs} ${size.format}`)?.length ?? 0;
  let left = size.requests;
  const client = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const headers = { "content-type": "application/json", ...contestant.headers };
      const response = await fetch(contestant.url, { method: "POST", headers, body });
      let received = 0;
      for await (const piece of response.body ?? []) received += piece.length;
      if (received !== expected) throw new Error(`${contestant.name}: ${received} bytes came`);
    }
  };
  const { pid } = contestant.child;
  const [startedUs, startedMs] = [cpuUs(pid), performance.now()];
  await Promise.all(Array.from({ length: size.atOnce }, client));
  return {
    cpu: (cpuUs(pid) - startedUs) / size.requests,
    wall: ((performance.now() - startedMs) * 1000) / size.requests,
  };
}

/** The most memory that a process had so far, in megabytes. nginx's worker is a child of its process. */
function peakMb({ child }: Contestant): number {
  const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "latin1");
  const pids = [String(child.pid), ...children.split(" ").filter(Boolean)];
  const peaksKb = pids.map((pid) =>
    Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1] ?? 0),
  );
  return Math.max(...peaksKb) / 1024;
}

async function measure(): Promise<void> {
  const contestants = [await startNginx(), await startTollgate()];
  const rounds = Number(values.rounds ?? ROUNDS);
  for (const size of sizes) {
    const bytes = answers.get(`${size.inputs} ${size.format}`)?.length ?? 0;
    const figures = new Map(
      contestants.map(({ name }) => [name, { cpu: [] as number[], wall: [] as number[] }]),
    );
    for (const contestant of contestants) await turn(contestant, size);
    for (let round = 0; round < rounds; round += 1) {
      const order = round % 2 === 0 ? contestants : contestants.toReversed();
      for (const contestant of order) {
        const { cpu, wall } = await turn(contestant, size);
        figures.get(contestant.name)?.cpu.push(cpu);
        figures.get(contestant.name)?.wall.push(wall);
      }
    }
    console.log(`${size.name} (${(bytes / 1e6).toFixed(3)} MB, ${size.atOnce} at once)`);
    const nginxUs = quantile(figures.get("nginx")?.cpu ?? [], 0.5) ?? 0;
    for (const contestant of contestants) {
      const { cpu = [], wall = [] } = figures.get(contestant.name) ?? {};
      const cpuOfAll = cpu.map((us) => us.toFixed(0)).join(" ");
      const medianUs = quantile(cpu, 0.5) ?? 0;
      const wallUs = quantile(wall, 0.5) ?? 0;
      console.log(
        `  ${contestant.name}: CPU ${medianUs.toFixed(0)} us, ${(medianUs / nginxUs).toFixed(2)} x nginx (${cpuOfAll}); ${wallUs.toFixed(0)} us for each; at most ${peakMb(contestant).toFixed(0)} MB so far`,
      );
    }
  }
}

try {
  await measure();
} finally {
  await endAll();
  await provider.stop(true);
  rmSync(folder, { recursive: true, force: true });
}
