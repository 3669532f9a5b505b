import { RedisClient } from "bun";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, ServerProcess } from "./serverProcess.ts";

const program = Bun.which("valkey-server") ?? Bun.which("redis-server");

/** Why no server can be started here, and what to do. Undefined: one can. */
export const redisMissing =
  program === null ? "install Valkey or Redis, such as `apt-get install redis-server`" : undefined;

/** A Valkey or Redis server of a test. It keeps nothing on disk, so it is empty after a start. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops the process: connections stay open and get no answer. */
  pause(): void;
  resume(): void;
  close(): Promise<void>;
}

/** `more`: settings such as `--maxmemory 10mb`, one word each. */
export async function startRedis(more: readonly string[] = []): Promise<RedisServer> {
  if (program === null) throw new Error(redisMissing);
  const folder = await mkdtemp(join(tmpdir(), "tollgate-redis-"));
  const port = freePort();
  const url = `redis://127.0.0.1:${port}`;
  const options = [
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--appendonly",
    "no",
    "--dir",
    folder,
    ...more,
  ];
  const server = new ServerProcess({
    command: [program, "--port", String(port), ...options],
    folder,
    endSignal: "SIGTERM",
    isReady: () => answers(url),
  });
  await server.start();
  return {
    url,
    port,
    kill: () => server.kill(),
    start: () => server.start(),
    pause: () => server.pause(),
    resume: () => server.resume(),
    close: () => server.close(),
  };
}

async function answers(url: string): Promise<boolean> {
  const client = new RedisClient(url, { autoReconnect: false, connectionTimeout: 1000 });
  try {
    await client.ping();
    return true;
  } catch {
    return false;
  } finally {
    client.close();
  }
}
