import { describe, test } from "bun:test";
import type { GatewayConfig, Section } from "./gateway/gatewayConfig.ts";
import type { TestDatabase } from "./servers/postgres.ts";
import { startRedis, type RedisServer } from "./servers/redis.ts";
import { replicaDatabase } from "./store/replicaDatabase.ts";

/**
 * The engine of the gateways that tests start. With the variable TOLLGATE_TEST_ENGINE=postgres each of them has a
 * PostgreSQL database instead of a file.
 */
export const testedStore = choiceOf("TOLLGATE_TEST_ENGINE", ["sqlite", "postgres"]);

/** Who counts their limits. With the variable TOLLGATE_TEST_LIMITS=redis it is a Redis or Valkey server. */
const testedLimits = choiceOf("TOLLGATE_TEST_LIMITS", ["memory", "redis"]);

/** How many processes serve in each gateway that is started as a program. TOLLGATE_TEST_PROCESSES is another number. */
export const testedProcesses = Number(process.env["TOLLGATE_TEST_PROCESSES"] ?? 1);

export const isAnyServerTested = testedStore === "postgres" || testedLimits === "redis";

/** Tests of what only a SQLite file can do, such as a full disk. They are skipped when a server is tested. */
export const describeSqlite = describe.skipIf(testedStore !== "sqlite");
export const testSqlite = test.skipIf(testedStore !== "sqlite");

/** A config with the servers that are tested. */
export interface TestedConfig {
  readonly config: GatewayConfig;
  /** Of the PostgreSQL database; undefined: it is a file. */
  readonly databaseUrl: string | undefined;
  /** Of the database on the limits server; undefined: limits are counted in memory. */
  readonly limitsUrl: string | undefined;
  /** The same sections in another config of this gateway. */
  withServers(other: GatewayConfig): GatewayConfig;
  /** Removes what is on the servers. The gateway has ended. */
  remove(): Promise<void>;
}

/** Puts the tested servers into the config of a new gateway. */
export async function withTestedEngines(config: GatewayConfig): Promise<TestedConfig> {
  const database = testedStore === "postgres" ? await replicaDatabase() : undefined;
  const redisUrl = testedLimits === "redis" ? await freshLimits() : undefined;
  const withServers = (other: GatewayConfig) => addServers(other, database, redisUrl);
  return {
    config: withServers(config),
    databaseUrl: database?.url,
    limitsUrl: redisUrl,
    withServers,
    async remove() {
      await database?.drop();
    },
  };
}

function addServers(
  config: GatewayConfig,
  database: TestDatabase | undefined,
  redis: string | undefined,
): GatewayConfig {
  const sections: Record<string, Section> = { ...config.sections };
  if (database !== undefined) {
    const { path: _, durability: __, ...settings } = sections["database"] ?? {};
    sections["database"] = { ...settings, url: database.url };
  }
  if (redis !== undefined) sections["limits"] = { ...sections["limits"], redis };
  return { ...config, sections };
}

let limitsServer: Promise<RedisServer> | undefined;
let limitsDatabases = 0;

/** The URL of an empty database on the one limits server of this process. */
async function freshLimits(): Promise<string> {
  limitsServer ??= startRedis(["--databases", "10000"]);
  const { url } = await limitsServer;
  limitsDatabases += 1;
  return `${url}/${limitsDatabases}`;
}

function choiceOf<Choice extends string>(
  variable: string,
  [first, second]: readonly [Choice, Choice],
): Choice {
  const named = process.env[variable] ?? first;
  if (named === first) return first;
  if (named === second) return second;
  throw new Error(`${variable} must be ${first} or ${second}, and is ${named}`);
}
