import type { Subprocess } from "bun";
import { join, resolve } from "node:path";
import type { Order, Report } from "./loadOrders.ts";
import { end, spawn } from "./processes.ts";

const certificates = resolve(import.meta.dir, "../../test/support/certificates");

/** The authority that vouches for the provider's certificate, which is one for "localhost". */
export const authorityFile = join(certificates, "authority.pem");

/** The provider that everyone calls. */
export interface Provider {
  readonly child: Subprocess;
  readonly port: number;
  readonly securePort: number;
}

export async function startProvider(): Promise<Provider> {
  const { promise, resolve: ready } = Promise.withResolvers<Omit<Provider, "child">>();
  const file = new URL("./provider.ts", import.meta.url).pathname;
  const pems = [join(certificates, "localhost.pem"), join(certificates, "server.key")];
  const child = spawn([process.execPath, file, ...pems], {
    ipc: (message) => ready(message as Omit<Provider, "child">),
  });
  return { child, ...(await orEnded(child, promise)) };
}

/** The load generator. One order at a time, but for "sample" and "stop". */
export class Load {
  readonly #child: Subprocess;
  readonly #waiting = new Map<number, (report: Report) => void>();
  readonly #ready = Promise.withResolvers<void>();
  #lastId = 0;

  private constructor() {
    const file = new URL("./load.ts", import.meta.url).pathname;
    this.#child = spawn([process.execPath, file], { ipc: (message) => this.#hear(message) });
  }

  static async start(): Promise<Load> {
    const load = new Load();
    await orEnded(load.#child, load.#ready.promise);
    return load;
  }

  async give(order: Order): Promise<Report> {
    const { promise, resolve: answered } = Promise.withResolvers<Report>();
    const id = (this.#lastId += 1);
    this.#waiting.set(id, answered);
    this.#child.send({ id, order });
    return await orEnded(this.#child, promise);
  }

  end(): Promise<void> {
    return end(this.#child);
  }

  #hear(message: unknown): void {
    if (message === "ready") return this.#ready.resolve();
    const { id, report } = message as { id: number; report: Report };
    this.#waiting.get(id)?.(report);
    this.#waiting.delete(id);
  }
}

/** Resolves with the awaited value, or rejects when the process ends first. */
async function orEnded<Value>(child: Subprocess, value: Promise<Value>): Promise<Value> {
  const gone = child.exited.then((status) => {
    throw new Error(`a process of the bench ended with status ${status}`);
  });
  return await Promise.race([value, gone]);
}
