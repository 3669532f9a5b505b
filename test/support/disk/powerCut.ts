import { lostCharges } from "../auditor/auditor.ts";
import { cutByCrash } from "../auditor/logs.ts";
import { problemsAfterCrash } from "../store/auditProblems.ts";
import { chatAndEmbeddings } from "../gateway/gatewayConfig.ts";
import { startGatewayProcess, type GatewayProcess } from "../binary/gatewayProcess.ts";
import { sendMixedLoad } from "../binary/mixedLoad.ts";
import { openFaultyDisk, type FaultyDisk } from "./faultyDisk.ts";

/** A compiled gateway whose database is on a faulty disk. No other process writes to it meanwhile. */
export interface GatewayOnDisk {
  readonly gateway: GatewayProcess;
  readonly disk: FaultyDisk;
  /** A key of `alice`, who has enough money. */
  readonly key: string;
  close(): Promise<void>;
}

/** The result of a power cut. */
export interface PowerCut {
  /** Answers that a client received whole. */
  readonly whole: number;
  /** The lost charges of these answers. */
  readonly lost: readonly string[];
  /** Other problems of the database. */
  readonly problems: readonly string[];
}

const requestsPerCut = 60;
const requestsAtOnce = 16;

export async function startGatewayOnDisk(
  providerUrl: string,
  durability: "power" | "process",
): Promise<GatewayOnDisk> {
  let disk: FaultyDisk | undefined;
  let key = "";
  const sections = { database: { path: "tollgate.db", durability } };
  const gateway = await startGatewayProcess(chatAndEmbeddings(providerUrl, sections), {
    async prepare(cli) {
      ({ key } = (await cli.json("keys", "create", "--account", "alice")) as { key: string });
      await cli.json("balance", "credit", "alice", "1000000");
      disk = await openFaultyDisk(cli.database);
      return disk.environment;
    },
  });
  if (!disk) throw new Error("the gateway was started without its disk");
  const faulty = disk;
  return {
    gateway,
    disk: faulty,
    key,
    async close() {
      await gateway.close();
      await faulty.close();
    },
  };
}

/**
 * Cuts the power at the `atCall`th call from now, under load, and starts the gateway on what survived. `seed`
 * decides what does.
 */
export async function cutPower(
  { gateway, disk, key }: GatewayOnDisk,
  { atCall, seed }: { readonly atCall: number; readonly seed: number },
): Promise<PowerCut> {
  await disk.tell(`cut-at ${atCall} ${seed}`);
  let isOver = false;
  const gone = gateway.ended.then(() => (isOver = true));
  const { seen, whole } = await sendMixedLoad(gateway, key, {
    requests: requestsPerCut,
    atOnce: requestsAtOnce,
    isOver: () => isOver,
    seen: () => {},
  });
  if (!isOver) await disk.tell(`cut ${seed}`).catch(() => {});
  await gone;
  await gateway.start();
  const lost = await lostCharges(gateway.place, cutByCrash(seen));
  return { whole: whole.length, lost, problems: await problemsAfterCrash(gateway) };
}
