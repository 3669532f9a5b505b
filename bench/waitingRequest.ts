// What one request keeps in memory while it waits for its provider: objects of the engine by type, and bytes. Once for
// a request for a JSON answer, and once for a stream.
//
//   bun bench/waitingRequest.ts [ROOT]
//
// ROOT is another checkout, with its packages and its executable, to compare. The gateway runs from its source. The
// number of promises and functions follows the code, so it is the same in each run.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startTollgate, stop } from "./gateway/contestants.ts";
import { HEAP_LINE, type HeapCounts } from "./gateway/heapCounts.ts";
import { endAll } from "./gateway/processes.ts";
import { callOf } from "./gateway/turn.ts";

/** The first requests also make what all share. */
const FIRST_REQUESTS = 20;
const REQUESTS = 200;
/** Longer than the time after which a waiting request gets its row. */
const SETTLE_MS = 2500;
const POLL_MS = 50;
const TYPES_SHOWN = 12;

let isMeasured = false;
const root = resolve(process.argv[2] ?? join(import.meta.dir, ".."));
const folder = mkdtempSync(join(tmpdir(), "tollgate-waiting-"));
/** It reads requests and never answers. */
const provider = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
try {
  const silent = { child: undefined as never, port: provider.port, securePort: provider.port };
  const preload = join(import.meta.dir, "gateway/heapCounts.ts");
  const program = [process.execPath, "--preload", preload, join(root, "src/main.ts")];
  const ground = { folder, provider: silent, other: silent };
  const tollgate = await startTollgate("tollgate", join(root, "dist/tollgate"), ground, {
    program,
  });
  const counts: HeapCounts[] = [];
  const countAfter = async (requests: number, text: string): Promise<HeapCounts> => {
    const socket = { open: (client: Bun.Socket) => void client.write(text), data: refuseError };
    for (let sent = 0; sent < requests; sent += 1)
      await Bun.connect({ hostname: "127.0.0.1", port: tollgate.port, socket });
    await Bun.sleep(SETTLE_MS);
    tollgate.child.kill("SIGUSR2");
    counts.push(await heapCounts(join(folder, "tollgate/tollgate.log"), counts.length));
    return counts.at(-1) as HeapCounts;
  };
  for (const model of ["json", "stream-20"]) {
    const [request = ""] = callOf(tollgate, { model }).requests;
    const first = await countAfter(FIRST_REQUESTS, request);
    print(model, first, await countAfter(REQUESTS, request));
  }
  isMeasured = true;
  await stop(tollgate);
} finally {
  provider.stop(true);
  await endAll();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);

/** A waiting request may get its 200 and keep-alives. */
function refuseError(_: unknown, answer: Buffer): void {
  const text = answer.toString("utf8", 0, 200);
  const isError = text.startsWith("HTTP/1.1 ") && !text.startsWith("HTTP/1.1 200 ");
  if (isError && !isMeasured) throw new Error(`a request was refused: ${text}`);
}

/** The counts with this index in the log. */
async function heapCounts(logFile: string, index: number): Promise<HeapCounts> {
  for (;;) {
    const lines = readFileSync(logFile, "utf8").split("\n").slice(0, -1);
    const line = lines.filter((text) => text.startsWith(HEAP_LINE))[index];
    if (line !== undefined) return JSON.parse(line.slice(HEAP_LINE.length)) as HeapCounts;
    await Bun.sleep(POLL_MS);
  }
}

function print(model: string, first: HeapCounts, all: HeapCounts): void {
  const each = (before: number, after: number): number => (after - before) / REQUESTS;
  console.log(`${model}\nbytes    ${each(first.bytes, all.bytes).toFixed(0).padStart(7)}`);
  console.log(`objects  ${each(first.objects, all.objects).toFixed(1).padStart(7)}`);
  const types = Object.entries(all.types)
    .map(([type, count]) => [type, each(first.types[type] ?? 0, count)] as const)
    .toSorted((one, other) => other[1] - one[1]);
  for (const [type, count] of types.slice(0, TYPES_SHOWN))
    console.log(`  ${type.padEnd(24)}${count.toFixed(1).padStart(7)}`);
}
