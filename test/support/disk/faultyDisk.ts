import type { Socket } from "bun";
import { realpathSync } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { outputOf } from "../binary/binary.ts";

const source = join(import.meta.dir, "faultyDisk.c");
const compilers = ["cc", "gcc", "clang"];

/** A disk for one database that fails on command; faultyDisk.c lists the commands. */
export interface FaultyDisk {
  /** The environment of a process that uses this disk. */
  readonly environment: Readonly<Record<string, string>>;
  /** The first command of each process that starts; `go` unless it is set. */
  first: string;
  /** Sends a command to the running process; resolves with its answer. Rejects where none runs. */
  tell(command: string): Promise<string>;
  close(): Promise<void>;
}

/** The C compiler of this machine; undefined where there is none, and then no disk can be made to fail. */
export function cCompiler(): string | undefined {
  return compilers.map((name) => Bun.which(name)).find((path) => path !== null) ?? undefined;
}

/** Makes a disk for the database at this path, which need not be there yet. */
export async function openFaultyDisk(databasePath: string): Promise<FaultyDisk> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-disk-"));
  const library = join(folder, "faultyDisk.so");
  await compile(library);
  const control = join(folder, "control");
  const cli = new ControlDesk();
  const listener = Bun.listen({
    unix: control,
    socket: {
      open: (socket) => cli.began(socket),
      data: (socket, bytes) => cli.answered(socket, bytes.toString()),
      close: (socket) => cli.ended(socket),
      error: () => {},
    },
  });
  const parent = realpathSync(join(databasePath, ".."));
  return {
    environment: {
      LD_PRELOAD: library,
      TOLLGATE_DISK_FILE: join(parent, databasePath.slice(databasePath.lastIndexOf("/") + 1)),
      TOLLGATE_DISK_CONTROL: control,
    },
    get first() {
      return cli.first;
    },
    set first(command) {
      cli.first = command;
    },
    tell: (command) => cli.tell(command),
    async close() {
      listener.stop(true);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The other end of the library's socket: a command, a line; its answer, a line. */
class ControlDesk {
  first = "go";
  #socket: Socket | undefined;
  #waiting: { resolve(answer: string): void; reject(error: Error): void }[] = [];

  began(socket: Socket): void {
    this.#socket = socket;
    void this.tell(this.first).catch(() => {});
  }

  tell(command: string): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    if (!this.#socket) return Promise.reject(new Error("no process has this disk now"));
    this.#waiting.push({ resolve, reject });
    this.#socket.write(`${command}\n`);
    return promise;
  }

  answered(socket: Socket, text: string): void {
    if (socket !== this.#socket) return;
    for (const line of text.split("\n").filter((one) => one !== ""))
      this.#waiting.shift()?.resolve(line);
  }

  ended(socket: Socket): void {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    for (const one of this.#waiting.splice(0)) one.reject(new Error("the process is gone"));
  }
}

async function compile(library: string): Promise<void> {
  const compiler = cCompiler();
  if (compiler === undefined) throw new Error(`none of ${compilers.join(", ")} is there`);
  const made = `${library}.new`;
  const flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"];
  const child = Bun.spawn([compiler, ...flags, "-o", made, source, "-ldl", "-lpthread"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { stdout, stderr, status } = await outputOf(child);
  if (status !== 0) throw new Error(`${source} does not compile\n${stdout}${stderr}`);
  await rename(made, library);
}
