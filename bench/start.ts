/**
 * How long the compiled executable takes from `exec` to its first answered request, on an empty SQLite file:
 *
 *   bun bench/start.ts [--against BINARY] [--runs N]
 *
 * It builds the executable if it is not up to date. --against starts another build in turns with this one, and compares
 * the medians. N is the number of starts of each build, 10 unless given.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { binaryPath } from "../test/support/binary/binary.ts";
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

/**
 * Starts each executable this often, all in turns, and once before to make its database. Resolves with the durations of the
 * starts of each executable, in milliseconds.
 */
export async function startsMs(binaries: readonly string[], runs: number): Promise<number[][]> {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-start-"));
  try {
    const starts = binaries.map((binary, at) => {
      const file = join(folder, String(at), "config.toml");
      mkdirSync(dirname(file));
      writeFileSync(file, config, { mode: 0o600 });
      return { each: [] as number[], startMs: () => startOnceMs(binary, file) };
    });
    for (const { startMs } of starts) await startMs();
    for (let run = 0; run < runs; run += 1)
      for (const { each, startMs } of starts) each.push(await startMs());
    return starts.map(({ each }) => each);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startOnceMs(binary: string, configFile: string): Promise<number> {
  const startedMs = performance.now();
  const gateway = Bun.spawn([binary, "serve", "--config", configFile], { stdout: "ignore" });
  while (!(await isAnswered())) {
    if (gateway.exitCode !== null) throw new Error(`${binary} ended with ${gateway.exitCode}`);
    await Bun.sleep(1);
  }
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
  const { values } = parseArgs({
    options: { against: { type: "string" }, runs: { type: "string", default: String(RUNS) } },
  });
  const builds = [await binaryPath(), ...(values.against ? [resolve(values.against)] : [])];
  const medians = (await startsMs(builds, Number(values.runs))).map((each, at) => {
    const medianMs = quantile(each, 0.5) ?? NaN;
    console.log(
      `${builds[at]}, start to first answer, ms: ${each.map((ms) => ms.toFixed(0)).join(" ")}`,
    );
    console.log(`median of ${each.length}: ${medianMs.toFixed(1)} ms`);
    return medianMs;
  });
  const [thisMs, otherMs] = medians;
  if (thisMs && otherMs) console.log(`this build to the other: ${(thisMs / otherMs).toFixed(2)}`);
}
