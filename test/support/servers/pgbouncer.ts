import { mkdtemp, writeFile } from "node:fs/promises";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, ServerProcess } from "./serverProcess.ts";

// Debian has it in a folder that only root has in its path.
const program = Bun.which("pgbouncer") ?? Bun.which("/usr/sbin/pgbouncer");

/** Why no pooler can be started here, and what to do. Undefined: one can. */
export const pgbouncerMissing =
  program === null ? "install PgBouncer, such as `apt-get install pgbouncer`" : undefined;

export type PoolMode = "session" | "transaction" | "statement";

/** A PgBouncer of a test, in front of a server on 127.0.0.1. `await using` ends it. */
export interface Pgbouncer extends AsyncDisposable {
  readonly port: number;
  /** The same URL, through the pooler. */
  through(url: string): string;
}

/** `port`: where it listens. */
export async function startPgbouncer(
  mode: PoolMode,
  serverPort: number,
  port = freePort(),
): Promise<Pgbouncer> {
  if (program === null) throw new Error(pgbouncerMissing);
  const folder = await mkdtemp(join(tmpdir(), "tollgate-pgbouncer-"));
  const settings = [
    "[databases]",
    `* = host=127.0.0.1 port=${serverPort} user=postgres`,
    "[pgbouncer]",
    "listen_addr=127.0.0.1",
    `listen_port=${port}`,
    "unix_socket_dir=",
    "auth_type=any",
    `pool_mode=${mode}`,
    "max_client_conn=500",
    "default_pool_size=50",
    // It refuses to run as root.
    ...(process.getuid?.() === 0 ? ["user=postgres"] : []),
  ];
  const file = join(folder, "pgbouncer.ini");
  await writeFile(file, settings.join("\n"));
  await Bun.$`chmod 755 ${folder}`.quiet();
  const server = new ServerProcess({
    command: [program, "--quiet", file],
    folder,
    // An immediate shutdown (https://www.pgbouncer.org/usage.html).
    endSignal: "SIGTERM",
    isReady: () => accepts(port),
  });
  await server.start();
  return {
    port,
    through(url) {
      const changed = new URL(url);
      changed.host = `127.0.0.1:${port}`;
      return changed.href;
    },
    [Symbol.asyncDispose]: () => server.close(),
  };
}

function accepts(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = createConnection({ host: "127.0.0.1", port });
  socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  return promise.finally(() => socket.destroy());
}
