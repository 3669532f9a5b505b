import type { Subprocess } from "bun";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { configText, type GatewayConfig } from "../../test/support/gateway/gatewayConfig.ts";
import { spawn } from "./processes.ts";

const START_MS_MAX = 15_000;
const binary = join(import.meta.dir, "../../dist/tollgate");

/** The executable as an operator runs it: charges with durability "power", a log line for each request. */
export interface ServedBinary {
  readonly child: Subprocess;
  readonly origin: string;
  /** A key of an account with a billion roubles. */
  readonly key: string;
}

/** Starts it in the folder. */
export async function serveBinary(
  folder: string,
  config: Pick<GatewayConfig, "providers" | "models">,
): Promise<ServedBinary> {
  mkdirSync(folder);
  const file = join(folder, "config.toml");
  await Bun.write(file, configText({ ...config, sections: { database: { durability: "power" } } }));
  command(file, "accounts", "create", "bench");
  command(file, "balance", "credit", "bench", "1000000000");
  const { key } = JSON.parse(command(file, "keys", "create", "--account", "bench", "--json")) as {
    key: string;
  };
  const logFile = join(folder, "tollgate.log");
  const env = { PATH: process.env["PATH"] ?? "" };
  const child = spawn([binary, "serve", "--config", file], { logFile, env });
  const portIn = () =>
    /"address":"http:\/\/127\.0\.0\.1:(\d+)"/.exec(readFileSync(logFile, "utf8"))?.[1];
  await until(() => Promise.resolve(portIn() !== undefined));
  return { child, origin: `http://127.0.0.1:${portIn()}`, key };
}

function command(file: string, ...words: readonly string[]): string {
  const { success, stdout, stderr } = Bun.spawnSync([binary, ...words, "--config", file]);
  if (!success) throw new Error(`tollgate ${words[0]}: ${stderr.toString()}`);
  return stdout.toString();
}

/** Waits for a process that is starting. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + START_MS_MAX;
  while (!(await isSo().catch(() => false))) {
    if (performance.now() > deadlineMs) throw new Error("a process did not start");
    await Bun.sleep(20);
  }
}
