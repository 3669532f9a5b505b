import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { rename } from "node:fs/promises";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { holdWrites } from "../support/store/gatewayDatabase.ts";
import { until } from "../support/until.ts";

const SIGHUP = 1n;
const SIGTERM = 15n;

/** Whether a process has a handler for the signal. */
function catches(pid: number, signal: bigint): boolean {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const caught = BigInt(`0x${/^SigCgt:\s*(\w+)/m.exec(status)?.[1] ?? "0"}`);
  return ((caught >> (signal - 1n)) & 1n) === 1n;
}

test(
  "SIGHUP does not end a gateway that still reads its config: it reloads once it listens",
  async () => {
    const gateway = await startGatewayProcess(oneModel("http://127.0.0.1:9/v1"));
    try {
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      const { config } = gateway.cli;
      await rename(config, `${config}.kept`);
      expect(Bun.spawnSync(["mkfifo", config]).success).toBe(true);
      const since = gateway.log.length;
      const starting = gateway.start();
      try {
        await until("it listens for SIGHUP", () => catches(gateway.pid, SIGHUP));
        gateway.signal("SIGHUP");
      } finally {
        // Opening the pipe waits for its reader. The file read after it is a plain file.
        const hand = 'exec 3> "$0"; cp "$0.kept" "$0.next"; mv "$0.next" "$0"; cat "$0" >&3';
        await Bun.spawn(["sh", "-c", hand, config]).exited;
      }
      await starting;
      await gateway.logged("it reloads", ({ msg }) => msg === "config reloaded", since);
    } finally {
      await gateway.close();
    }
  },
  startTimeoutMs,
);

test(
  "SIGHUP does not end a gateway that waits for its store as it starts: it reloads once it listens",
  async () => {
    const gateway = await startGatewayProcess(oneModel("http://127.0.0.1:9/v1"));
    try {
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      const lock = await holdWrites(gateway.place);
      const since = gateway.log.length;
      const starting = gateway.start();
      try {
        await until("it listens for signals", () => catches(gateway.pid, SIGTERM));
        await Bun.sleep(200);
        gateway.signal("SIGHUP");
        await Bun.sleep(200);
      } finally {
        await lock[Symbol.asyncDispose]();
      }
      await starting;
      await gateway.logged("it reloads", ({ msg }) => msg === "config reloaded", since);
    } finally {
      await gateway.close();
    }
  },
  startTimeoutMs,
);
