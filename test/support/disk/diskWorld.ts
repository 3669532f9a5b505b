import { afterAll, beforeAll, describe } from "bun:test";
import type { CliFolder } from "../binary/cli.ts";
import { startTimeoutMs } from "../binary/gatewayProcess.ts";
import { chatAndEmbeddings } from "../gateway/gatewayConfig.ts";
import { testedStore } from "../testedEngines.ts";
import { World, type WorldProvider } from "../world/world.ts";
import { cCompiler, openFaultyDisk, type FaultyDisk } from "./faultyDisk.ts";

/** A world whose database is on a faulty disk. No other process writes to it meanwhile. */
export interface DiskSetup {
  readonly world: World;
  readonly disk: FaultyDisk;
  /** A key of `alice`, who has enough money. */
  readonly key: string;
}

/** Why no disk can be made to fail here. */
export const diskMissing = whyMissing();

/** Tests of a file on a faulty disk. `what`: for the report. */
export function describeFaultyDisk(what: string): typeof describe {
  if (diskMissing !== undefined) process.stderr.write(`NOT RUN: ${what}: ${diskMissing}\n`);
  return describe.skipIf(diskMissing !== undefined);
}

function whyMissing(): string | undefined {
  if (cCompiler() === undefined) return "this machine has no C compiler";
  return testedStore === "sqlite" ? undefined : "a server has its own disk";
}

export async function openOnDisk(
  seed: number,
  provider: WorldProvider & { readonly url: string },
  durability: "power" | "process" = "power",
): Promise<DiskSetup> {
  let disk: FaultyDisk | undefined;
  let key = "";
  const sections = { database: { path: "tollgate.db", durability } };
  const parts = {
    seed,
    providers: [provider, { stop: () => disk?.close() }],
    config: chatAndEmbeddings(provider.url, sections),
    async prepare(cli: CliFolder) {
      ({ key } = (await cli.json("keys", "create", "--account", "alice")) as { key: string });
      await cli.json("balance", "credit", "alice", "1000000");
      disk = await openFaultyDisk(cli.database);
      return disk.environment;
    },
  };
  return await World.open(parts, () => {
    if (!disk) throw new Error("the gateway was started without its disk");
    return { disk, key };
  });
}

/** The same for the tests around it. */
export function openOnDiskBefore(provider: WorldProvider & { readonly url: string }): {
  readonly on: DiskSetup & Pick<World, "gateway">;
} {
  let opened: DiskSetup | undefined;
  beforeAll(async () => {
    opened = await openOnDisk(1, provider);
  }, startTimeoutMs);
  afterAll(() => opened?.world.close());
  return {
    get on() {
      if (!opened) throw new Error("the gateway is not started yet");
      return { ...opened, gateway: opened.world.gateway };
    },
  };
}
