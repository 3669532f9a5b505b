import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { fromSource, openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { configText, oneModel } from "../../support/gateway/gatewayConfig.ts";

let cli: CliFolder;
beforeEach(async () => {
  cli = await openCliFolder(null);
  const socket = `unix:${join(cli.folder, "gateway.sock")}`;
  await Bun.write(
    cli.config,
    configText(oneModel("http://127.0.0.1:9/v1", { server: { listen: socket } })),
  );
});
afterEach(() => cli.remove());

const START_TIMEOUT_MS = 20_000;

/** The standard error of a gateway that answers five requests, each with a line in the log, and is then stopped. */
async function warningsOf(stdout: "pipe" | number): Promise<string> {
  const child = Bun.spawn([...fromSource, "serve", "--config", cli.config], {
    cwd: cli.folder,
    env: { PATH: process.env["PATH"] ?? "" },
    stdio: ["ignore", stdout, "pipe"],
  });
  if (child.stdout instanceof ReadableStream) await child.stdout.cancel();
  const stderr = child.stderr.text();
  const unix = join(cli.folder, "gateway.sock");
  const ask = async () => (await fetch("http://localhost/v1/models", { unix })).status;
  try {
    const statuses = [await firstResult(ask)];
    while (statuses.length < 5) statuses.push(await ask());
    expect(statuses).toEqual([401, 401, 401, 401, 401]);
  } finally {
    child.kill("SIGTERM");
  }
  expect(await child.exited).toBe(0);
  return stderr;
}

/** Asks until the gateway answers: its socket file exists before it accepts connections. */
async function firstResult<Value>(ask: () => Promise<Value>): Promise<Value> {
  const deadlineMs = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
      await Bun.sleep(10);
    }
  }
}

const lost = (code: string): string =>
  `warning: the log cannot be written (${code}): log lines are lost, the gateway goes on\n`;

test("a gateway whose log reader is gone keeps running, and warns once", async () => {
  expect(await warningsOf("pipe")).toBe(lost("EPIPE"));
});

test("a gateway whose log disk is full keeps running, and warns once", async () => {
  const full = openSync("/dev/full", "w");
  try {
    expect(await warningsOf(full)).toBe(lost("ENOSPC"));
  } finally {
    closeSync(full);
  }
});
