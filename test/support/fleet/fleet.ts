import { openAuditor, type Auditor } from "../auditor/auditor.ts";
import { readDatabaseAt } from "../auditor/databaseRows.ts";
import { binaryPath } from "../binary/binary.ts";
import { openCliFolder, type CliFolder } from "../binary/cli.ts";
import { ServingProcess } from "../binary/servingProcess.ts";
import { configText, type GatewayConfig, type Section } from "../gateway/gatewayConfig.ts";
import { freePort } from "../servers/serverProcess.ts";
import { startTcpProxy, type TcpProxy } from "../servers/tcpProxy.ts";

/** Longer than a replica may be silent, with some time for a busy machine. */
const restTimeoutMs = 40_000;
const lookEveryMs = 100;

/** One of the gateways of a fleet. Only its own connections go through its proxy. */
export interface FleetReplica {
  readonly process: ServingProcess;
  readonly proxy: TcpProxy;
}

/** Several compiled gateways on one PostgreSQL database. `await using` stops them and removes their folders. */
export interface Fleet extends AsyncDisposable {
  readonly replicas: readonly FleetReplica[];
  /** Runs commands beside the replicas, with a connection of its own to the server. */
  readonly cli: CliFolder;
  readonly auditor: Auditor;
  /** The URL of a replica, in turns. */
  next(): string;
  /** Creates a key, and its account if needed, and credits this amount in roubles. Returns the secret. */
  key(account: string, roubles: string, ...flags: readonly string[]): Promise<string>;
  /** Resolves when no money is reserved and no request is running in the database. */
  atRest(): Promise<void>;
  /** What is wrong by the product's own audit and by the auditor, once the fleet is at rest. */
  problems(): Promise<readonly string[]>;
}

export interface FleetOptions {
  /** The URL of an empty database. */
  readonly databaseUrl: string;
  readonly serverPort: number;
  readonly replicas: number;
  /** Without its section `database`. */
  readonly config: GatewayConfig;
  readonly redisUrl?: string;
}

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const binary = await binaryPath();
  const folders: CliFolder[] = [];
  const folderFor = async (url: string): Promise<CliFolder> => {
    // A replica keeps its address when it starts again, as a load balancer expects.
    const listen = `127.0.0.1:${freePort()}`;
    const folder = await openCliFolder(fleetConfig(options, url, listen), [binary]);
    folders.push(folder);
    return folder;
  };
  const cli = await folderFor(options.databaseUrl);
  const startReplica = async (): Promise<FleetReplica> => {
    const proxy = await startTcpProxy(options.serverPort);
    const { folder } = await folderFor(proxy.through(options.databaseUrl));
    const process = new ServingProcess([binary, "serve"], folder);
    await process.start();
    return { process, proxy };
  };
  const replicas = await Promise.all(Array.from({ length: options.replicas }, startReplica));
  const auditor = openAuditor({ url: options.databaseUrl });
  let turn = 0;
  const atRest = async (): Promise<void> => {
    const deadlineMs = performance.now() + restTimeoutMs;
    for (;;) {
      const busy = await whatIsBusy(options.databaseUrl);
      if (busy === undefined) return;
      if (performance.now() > deadlineMs) throw new Error(busy);
      await Bun.sleep(lookEveryMs);
    }
  };
  return {
    replicas,
    cli,
    auditor,
    next() {
      turn += 1;
      return replicas[turn % replicas.length]?.process.url ?? "";
    },
    async key(account, roubles, ...flags) {
      const made = await cli.json("keys", "create", "--account", account, ...flags);
      if (roubles !== "0") await cli.json("balance", "credit", account, roubles);
      return (made as { key: string }).key;
    },
    atRest,
    async problems() {
      await atRest();
      const { status, stdout, stderr } = await cli.run("audit", "--json");
      const own = status === 0 ? [] : [`the audit ended with ${status}: ${stdout}${stderr}`];
      return [...own, ...(await auditor.problems())];
    },
    async [Symbol.asyncDispose]() {
      const end = async ({ process, proxy }: FleetReplica): Promise<void> => {
        process.signal("SIGCONT");
        proxy.pass();
        await process.stop();
        await proxy[Symbol.asyncDispose]();
      };
      await Promise.all(replicas.map(end));
      for (const folder of folders) await folder.remove();
    },
  };
}

function fleetConfig({ config, redisUrl }: FleetOptions, url: string, listen: string): string {
  const { limits = {}, server = {}, ...sections } = config.sections ?? {};
  const shared: Section = redisUrl === undefined ? {} : { redis: redisUrl };
  return configText({
    ...config,
    sections: {
      ...sections,
      server: { ...server, listen },
      database: { url },
      limits: { ...limits, ...shared },
    },
  });
}

async function whatIsBusy(url: string): Promise<string | undefined> {
  const { accounts, requests } = await readDatabaseAt({ url });
  const reserved = accounts.find((account) => account.reserved > 0n);
  if (reserved !== undefined) return `${reserved.reserved} of ${reserved.name} stay reserved`;
  const running = requests.find(({ status }) => status === "running");
  return running && `${running.publicId} stays running`;
}
