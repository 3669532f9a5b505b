import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { oneModel } from "../support/gatewayConfig.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/gatewayProcess.ts";
import { until } from "../support/until.ts";

const SIGTERM = 15n;

/** The signals that a process has a handler for, a bit each. */
function caughtBy(pid: number): bigint {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return BigInt(`0x${/^SigCgt:\s*(\w+)/m.exec(status)?.[1] ?? "0"}`);
}

test(
  "SIGHUP does not end a gateway that waits for its store as it starts: it reloads once it listens",
  async () => {
    const gateway = await startGatewayProcess(oneModel("http://127.0.0.1:9/v1"));
    try {
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      const other = new Database(gateway.desk.database);
      other.run("BEGIN IMMEDIATE");
      const since = gateway.log.length;
      const starting = gateway.start();
      try {
        await until("it listens for signals", () => {
          return ((caughtBy(gateway.pid) >> (SIGTERM - 1n)) & 1n) === 1n;
        });
        await Bun.sleep(200);
        gateway.signal("SIGHUP");
        await Bun.sleep(200);
      } finally {
        other.run("ROLLBACK");
        other.close();
      }
      await starting;
      await gateway.logged("it reloads", ({ msg }) => msg === "config reloaded", since);
    } finally {
      await gateway.close();
    }
  },
  startTimeoutMs,
);
