import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "bun:test";

const module = resolve(import.meta.dir, "../../../src/commands/serve/logWriter.ts");
const MEGABYTE = 1024 * 1024;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-log-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A program with `log` that exits right after the text, as the command line does. */
const program = (text: string, isShared = false): readonly string[] => [
  process.execPath,
  "-e",
  `import { openLogWriter } from ${JSON.stringify(module)};
   const log = openLogWriter(${isShared});
   ${text}
   process.exit(0);`,
];

/** Runs the program from a shell script; `"$@"` is the program. */
function inShell(script: string, text: string, isShared = false) {
  return Bun.spawn(["bash", "-c", script, "bash", ...program(text, isShared)], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
}

const writeMegabytes = (count: number): string =>
  `for (let n = 0; n < ${count}; n++) log.write("x".repeat(${MEGABYTE - 1}) + "\\n");`;

test("a log without a reader uses bounded memory, and warns about lost lines", async () => {
  const pipe = join(folder, "pipe");
  Bun.spawnSync(["mkfifo", pipe]);
  // It has both ends of the pipe open: writes succeed, and it reads nothing.
  const end = openSync(pipe, "r+");
  try {
    const child = Bun.spawn([...program(`${writeMegabytes(30)} await log.drain();`)], {
      stdio: ["ignore", end, "pipe"],
    });
    const said = await child.stderr.text();
    expect(said.split("\n")).toEqual([
      "warning: nothing reads the log: log lines are lost until a reader returns, the gateway goes on",
      "warning: nothing reads the log: its last lines are lost",
      "",
    ]);
    expect(await child.exited).toBe(0);
  } finally {
    closeSync(end);
  }
});

test("a slow reader gets every line of the log", async () => {
  const child = inShell('"$@" | { sleep 0.2; wc -c; }', `${writeMegabytes(3)} await log.drain();`);
  expect(await child.stderr.text()).toBe("");
  expect(Number(await child.stdout.text())).toBe(3 * MEGABYTE);
});

test("a line that a full disk cut does not damage the next lines", async () => {
  const text = `
    import { truncateSync } from "node:fs";
    log.write("a".repeat(1000) + "\\n");
    log.write("b".repeat(1000) + "\\n");
    await log.drain();
    truncateSync("log", 1011);
    log.write("c\\n");
    log.write("d\\n");
    await log.drain();`;
  // No file may grow beyond 1 KB.
  const child = inShell('trap "" XFSZ; ulimit -f 1; exec "$@" >> log', text);
  expect(await child.stderr.text()).toContain("the log cannot be written (EFBIG)");
  const lines = readFileSync(join(folder, "log"), "utf8").split("\n");
  expect(lines).toEqual(["a".repeat(1000), "b".repeat(10), "c", "d", ""]);
});

test("each line of two processes with one output is whole, also when its reader comes late", async () => {
  const lines = 12_000;
  const text = `
    const line = JSON.stringify({ text: "x".repeat(450) }) + "\\n";
    for (let at = 0; at < ${lines}; at += 1) {
      log.write(line);
      if (at % 4 === 0) await Bun.sleep(0);
    }
    await Bun.write(process.env.DONE, "");
    await log.drain();`;
  const writers = '{ DONE=a "$@" & DONE=b "$@" & wait; }';
  const reader = "{ until [ -e a ] && [ -e b ]; do sleep 0.01; done; cat; }";
  const child = inShell(`${writers} | ${reader}`, text, true);
  const written = (await child.stdout.text()).split("\n");
  expect(await child.stderr.text()).toBe("");
  expect(new Set(written)).toEqual(new Set([JSON.stringify({ text: "x".repeat(450) }), ""]));
  expect(written).toHaveLength(2 * lines + 1);
});
