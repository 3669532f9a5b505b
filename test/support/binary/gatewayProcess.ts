import { statSync } from "node:fs";
import { requestDetailDocument } from "../../../src/contract/operator/request.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { parseRoubles } from "../../../src/lib/money.ts";
import { idMaker, systemRandom } from "../../../src/lib/random.ts";
import { openAuditor, type Auditor } from "../auditor/auditor.ts";
import { binaryPath, isGivenBinary } from "./binary.ts";
import { auditProblemsAtRest } from "../store/auditProblems.ts";
import { openCliFolder, type CliFolder } from "./cli.ts";
import { configText, type GatewayConfig } from "../gateway/gatewayConfig.ts";
import type { DatabasePlace } from "../auditor/databaseRows.ts";
import { openStoreAt, rowsAt } from "../store/gatewayDatabase.ts";
import { makeKey } from "../gateway/testApp.ts";
import { withTestedEngines, type TestedConfig } from "../testedEngines.ts";
import { untilAsync } from "../until.ts";
import { ServingProcess } from "./servingProcess.ts";

/** A request in the form of `tollgate requests show --json`. */
export interface RequestRecord {
  readonly id: string;
  readonly status: string;
  readonly endpoint: string;
  readonly stream: boolean;
  readonly provider: string | null;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cached_tokens: number;
  readonly cache_write_tokens: number;
  readonly estimated: boolean;
  readonly cost_rub: string;
  readonly hold_rub: string;
}

export interface GatewayProcessOptions {
  /** The environment, in addition to PATH. */
  readonly environment?: Readonly<Record<string, string>>;
  /** A command that is put before the gateway's own; none unless given. */
  readonly launcher?: readonly string[];
  /** Prepares the folder before the start; the result is added to the environment. */
  readonly prepare?: (cli: CliFolder) => Promise<void | Readonly<Record<string, string>>>;
}

/** Building comes first, so a `beforeAll` that starts a gateway needs a time-out of this. */
export const startTimeoutMs = 60_000;
/**
 * The auditor reads the whole database at once, in this process. After a day of load only the command can check it,
 * which takes the time of a start.
 */
const auditedBytesMax = 512 * 1_048_576;
/** A server ends a replica that was killed after 15 s of silence. */
const endTimeoutMs = 30_000;
/** docs/run/fleet.md promises it. */
const toldWithinMs = 1000;
/** A request of a disconnected client may end a little later. */
const restTimeoutMs = 2000;

/** Starts the compiled gateway, and resolves when it listens. Close it, also after a failure. */
export async function startGatewayProcess(
  config: GatewayConfig,
  options: GatewayProcessOptions = {},
): Promise<GatewayProcess> {
  const binary = await binaryPath();
  const tested = await withTestedEngines(config);
  const cli = await openCliFolder(configText(tested.config), [binary]);
  const prepared = await options.prepare?.(cli);
  const command = [...(options.launcher ?? []), binary, "serve"];
  const environment = { ...options.environment, ...prepared };
  const gateway = new GatewayProcess({ cli, tested, command, environment });
  try {
    await gateway.start();
  } catch (error) {
    await gateway.remove();
    throw error;
  }
  return gateway;
}

/** The running compiled gateway in its own folder, with its commands. */
export class GatewayProcess extends ServingProcess {
  readonly cli: CliFolder;
  /** Its database: a file in the folder, unless a server is tested. */
  readonly place: DatabasePlace;
  /** Runs with every audit. */
  readonly auditor: Auditor;
  readonly #tested: TestedConfig;

  constructor(parts: {
    readonly cli: CliFolder;
    readonly tested: TestedConfig;
    readonly command: readonly string[];
    readonly environment: Readonly<Record<string, string>>;
  }) {
    const { cli, tested } = parts;
    super(parts.command, cli.folder, parts.environment);
    this.cli = cli;
    this.place =
      tested.databaseUrl === undefined ? { path: cli.database } : { url: tested.databaseUrl };
    this.auditor = openAuditor(this.place);
    this.#tested = tested;
  }

  /** Writes another config for its next start or reload. */
  async configure(config: GatewayConfig): Promise<void> {
    await Bun.write(this.cli.config, configText(this.#tested.withServers(config)));
  }

  /** Creates a key, and its account if needed, and credits this amount in roubles. Flags are those of `keys create`. */
  async key(account: string, roubles: string, ...flags: readonly string[]): Promise<string> {
    // Without the start of two processes. Another executable may have another schema.
    if (flags.length === 0 && !isGivenBinary()) {
      const store = await openStoreAt(this.place);
      try {
        const id = idMaker(systemClock, systemRandom)("key");
        return (await makeKey(store, id, { account, balance: parseRoubles(roubles) ?? 0n })).key;
      } finally {
        await store.close();
      }
    }
    const made = await this.cli.json("keys", "create", "--account", account, ...flags);
    if (roubles !== "0") await this.cli.json("balance", "credit", account, roubles);
    return (made as { key: string }).key;
  }

  /** The record of a request, once it has ended. */
  async request(id: string): Promise<RequestRecord> {
    // A request has no row at its beginning.
    const ended = `SELECT id FROM requests WHERE public_id = '${id}' AND status <> 'running'`;
    const hasEnded = async () => (await rowsAt(this.place, ended)).length > 0;
    await untilAsync(`request ${id} has ended`, hasEnded, endTimeoutMs);
    if (isGivenBinary()) return (await this.cli.json("requests", "show", id)) as RequestRecord;
    // Without the start of a process.
    const store = await openStoreAt(this.place);
    try {
      const request = await store.requests.find(id);
      if (request === undefined) throw new Error(`there is no request ${id}`);
      return requestDetailDocument(request, await store.requests.attempts(id));
    } finally {
      await store.close();
    }
  }

  /** Resolves when a running request has its row: some time after its beginning. */
  async lateRow(): Promise<void> {
    const running = "SELECT id FROM requests WHERE status = 'running'";
    const isThere = async () => (await rowsAt(this.place, running)).length > 0;
    await untilAsync("a running request has its row", isThere);
  }

  /** Resolves when nothing of the account's money is reserved any more: some time after its last request. */
  async unreserved(account: string): Promise<void> {
    const isFree = async () => {
      const shown = (await this.cli.json("balance", "show", account)) as { held_rub: string };
      return shown.held_rub === "0";
    };
    await untilAsync("nothing is reserved", isFree, endTimeoutMs);
  }

  /** Resolves when it has been told of all changes by commands so far: at once with a file, within a second with a server. */
  async toldOfChanges(): Promise<void> {
    if ("url" in this.place) await Bun.sleep(toldWithinMs);
  }

  /** Throws if an audit finds a problem or money stays held. */
  async expectAuditPasses(): Promise<void> {
    if (!this.#isAuditable()) return await this.#auditByCommand();
    const problems = await auditProblemsAtRest(this, restTimeoutMs);
    if (problems.length > 0) throw new Error(problems.join("\n"));
  }

  /** Stops it with SIGTERM, expects status 0, runs the audits, and removes the folder. */
  async close(): Promise<void> {
    try {
      await this.stop();
      await this.expectAuditPasses();
    } finally {
      await this.remove();
    }
  }

  /** Removes the folder, and what is on the tested servers. It has ended. */
  async remove(): Promise<void> {
    await this.cli.remove();
    await this.#tested.remove();
  }

  /** The auditor knows the schema of this tree. Another executable checks its database by its own command. */
  #isAuditable(): boolean {
    if (isGivenBinary()) return false;
    if (!("path" in this.place)) return true;
    const size = statSync(this.place.path, { throwIfNoEntry: false })?.size;
    return size !== undefined && size < auditedBytesMax;
  }

  async #auditByCommand(): Promise<void> {
    const { status, stdout, stderr } = await this.cli.run("audit", "--json");
    if (status !== 0) throw new Error(`the audit found problems: ${stdout}${stderr}`);
    const running = JSON.stringify(await this.cli.json("requests", "--status", "running"));
    if (running !== "[]") throw new Error(`something is still held: ${running}`);
  }
}
