/** How long the compiled binary takes from `exec` to its first answered request: `bun bench/start.ts`. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quantile } from "./gateway/figures.ts";

const RUNS = 10;
const PORT = 18_181;

const config = `
[server]
listen = "127.0.0.1:${PORT}"
[[providers]]
id = "none"
base_url = "http://127.0.0.1:1/v1"
[[models]]
id = "none"
rub_input_per_1m = 1
rub_output_per_1m = 1
max_output_tokens = 1
[[models.routes]]
provider = "none"
`;

/** Starts an executable this often, and once before to make its database. Resolves with the duration of each start. */
export async function startsMs(binary: string, runs: number): Promise<number[]> {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-start-"));
  try {
    const file = join(folder, "config.toml");
    writeFileSync(file, config, { mode: 0o600 });
    await startOnceMs(binary, file);
    const each: number[] = [];
    for (let run = 0; run < runs; run += 1) each.push(await startOnceMs(binary, file));
    return each;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startOnceMs(binary: string, configFile: string): Promise<number> {
  const startedMs = performance.now();
  const gateway = Bun.spawn([binary, "serve", "--config", configFile], { stdout: "ignore" });
  while (!(await isAnswered())) await Bun.sleep(1);
  const tookMs = performance.now() - startedMs;
  gateway.kill("SIGTERM");
  await gateway.exited;
  return tookMs;
}

/** Sends one request on a bare socket; true when it was answered. A refused connection costs next to nothing. */
async function isAnswered(): Promise<boolean> {
  const answered = Promise.withResolvers<boolean>();
  try {
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: PORT,
      socket: {
        data: (_, bytes) => answered.resolve(bytes.toString().startsWith("HTTP/1.1 200")),
        close: () => answered.resolve(false),
      },
    });
    socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const result = await answered.promise;
    socket.end();
    return result;
  } catch {
    return false;
  }
}

if (import.meta.main) {
  const runs = await startsMs(join(import.meta.dir, "../dist/tollgate"), RUNS);
  const medianMs = quantile(runs, 0.5) ?? 0;
  console.log(`start to first answer, ms: ${runs.map((ms) => ms.toFixed(0)).join(" ")}`);
  console.log(`median of ${RUNS}: ${medianMs.toFixed(1)} ms`);
}
