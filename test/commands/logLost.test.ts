import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { fromSource, openDesk, type Desk } from "../support/binary/cli.ts";
import { configText, oneModel } from "../support/gateway/gatewayConfig.ts";
import { until } from "../support/until.ts";

let desk: Desk;
beforeEach(async () => {
  desk = await openDesk(null);
  const socket = `unix:${join(desk.folder, "gateway.sock")}`;
  await Bun.write(
    desk.config,
    configText(oneModel("http://127.0.0.1:9/v1", { server: { listen: socket } })),
  );
});
afterEach(() => desk.remove());

/** What a gateway says on its error output that answered five requests, each with a line in the log, and was asked to stop. */
async function complaintsOf(stdout: "pipe" | number): Promise<string> {
  const child = Bun.spawn([...fromSource, "serve", "--config", desk.config], {
    cwd: desk.folder,
    env: { PATH: process.env["PATH"] ?? "" },
    stdio: ["ignore", stdout, "pipe"],
  });
  if (child.stdout instanceof ReadableStream) await child.stdout.cancel();
  const said = child.stderr.text();
  const unix = join(desk.folder, "gateway.sock");
  const ask = async () => (await fetch("http://localhost/v1/models", { unix })).status;
  try {
    await until("the gateway has its socket", () => existsSync(unix), 10_000);
    const statuses: number[] = [];
    while (statuses.length < 5) statuses.push(await ask());
    expect(statuses).toEqual([401, 401, 401, 401, 401]);
  } finally {
    child.kill("SIGTERM");
  }
  expect(await child.exited).toBe(0);
  return said;
}

const lost = (code: string): string =>
  `warning: the log cannot be written (${code}): log lines are lost, the gateway goes on\n`;

test("a gateway whose log reader is gone keeps running, and warns once", async () => {
  expect(await complaintsOf("pipe")).toBe(lost("EPIPE"));
});

test("a gateway whose log disk is full keeps running, and warns once", async () => {
  const full = openSync("/dev/full", "w");
  try {
    expect(await complaintsOf(full)).toBe(lost("ENOSPC"));
  } finally {
    closeSync(full);
  }
});
