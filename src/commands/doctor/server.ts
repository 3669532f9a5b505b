import {
  durabilityProblems,
  inspectServer,
  inspectStandby,
  type ServerAddress,
  type ServerInspection,
} from "../../store/open.ts";
import { StoreError } from "../../store/store.ts";
import type { DatabaseReading } from "./database.ts";
import { failed, passed, type Verdict } from "./verdict.ts";
import { bytesText } from "../../lib/terminal.ts";
import { behindText } from "../cli/session.ts";
import {
  inspectLimitsServer,
  type LimitsServerInspection,
} from "../../limits/server/inspection.ts";
import { serverTimes } from "../../limits/server/limitsServer.ts";
import { ServerProblem } from "../../limits/server/serverProblem.ts";

/** A gateway has a small pool, and commands need some connections too. */
const CONNECTIONS_LEFT_MIN = 10;
/** A key expires, and a request counts for a day, by the clock of the replica. */
const CLOCK_SKEW_MS_MAX = 2000;
const STANDBY_LAG_MS_MAX = 60_000;

/** A database on a server, and how its clock differs from that of this machine. */
export interface ServerReading extends DatabaseReading {
  readonly clockProblem: string | undefined;
}

/** Checks the server and the database without a change. Gateways may run on it. */
export async function readServer(database: ServerAddress): Promise<ServerReading> {
  try {
    const inspection = await inspectServer(database);
    return {
      verdict: judgeServer(database.shownUrl, inspection),
      lastEntry: inspection.lastEntryMs ?? "none",
      clockProblem: clockProblem(inspection.clockSkew),
    };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { verdict: failed(error.message), lastEntry: "unknown", clockProblem: undefined };
  }
}

/** Says what is wrong with the server. Otherwise it says what there is. */
export function judgeServer(shownUrl: string, server: ServerInspection): Verdict {
  const problems = [
    ...durabilityProblems(server),
    ...server.rightsProblems,
    ...schemaProblems(server),
    ...settingProblems(server),
    ...connectionProblems(server),
    ...server.standbys.flatMap(standbyProblem),
  ];
  const { open, max } = server.connections;
  const facts = [
    `PostgreSQL ${server.version}`,
    schemaText(server.schema),
    bytesText(server.bytes),
    `synchronous_commit ${server.settings.synchronous_commit}`,
    `${max - open} of ${max} connections left`,
  ];
  const lines = [
    `${shownUrl} (${facts.join(", ")})`,
    ...server.standbys.map(standbyLine),
    ...replicaLines(server),
  ];
  if (problems.length > 0) return failed(...problems, ...lines);
  return passed(...lines, "`tollgate audit` verifies its ledger");
}

function schemaProblems({ schema }: ServerInspection): readonly string[] {
  if (schema === undefined || schema.known >= schema.oldest) return [];
  return [
    `a newer version of tollgate has upgraded the database (${schemaText(schema)}), and this version cannot work with it: upgrade this one`,
  ];
}

function schemaText(schema: ServerInspection["schema"]): string {
  if (schema === undefined) return "no tables yet, the first command makes them";
  const { applied, known } = schema;
  const text = `schema ${applied} of ${known}`;
  return applied < known
    ? `${text}, the next start or command upgrades it without a backup: run pg_dump first`
    : text;
}

function settingProblems({ settings }: ServerInspection): readonly string[] {
  const problems: string[] = [];
  for (const name of ["fsync", "full_page_writes"] as const)
    if (settings[name] === "off")
      problems.push(
        `${name} is off: a power cut of the server would lose or damage records; set it to on`,
      );
  if (settings.synchronous_commit === "local" && settings.synchronous_standby_names !== "")
    problems.push(
      "synchronous_commit is local: commits do not wait for the standbys of synchronous_standby_names; set it to on",
    );
  return problems;
}

function connectionProblems({ connections: { open, max } }: ServerInspection): readonly string[] {
  const left = max - open;
  if (left >= CONNECTIONS_LEFT_MIN) return [];
  return [
    `the server has ${Math.max(0, left)} of ${max} connections left, at least ${CONNECTIONS_LEFT_MIN} are needed: raise max_connections, or end other clients`,
  ];
}

type Standby = ServerInspection["standbys"][number];

function standbyProblem({ name, state, lagMs }: Standby): readonly string[] {
  if (state === null) return [];
  if (state !== "streaming")
    return [`the standby ${name} does not follow (state ${state}): see the log of its server`];
  if ((lagMs ?? 0) <= STANDBY_LAG_MS_MAX) return [];
  return [`the standby ${name} is ${secondsText(lagMs ?? 0)} behind: see the load of its server`];
}

function standbyLine({ name, state, syncState, lagMs, lagBytes }: Standby): string {
  if (state === null)
    return "a standby follows; this user may not see how far: GRANT pg_monitor to it";
  const behind = `${secondsText(lagMs ?? 0)}, ${bytesText(Math.max(0, lagBytes ?? 0))} behind`;
  return `standby ${name}: ${state}, ${syncState ?? "async"}, ${behind}`;
}

function replicaLines({ replicas }: ServerInspection): readonly string[] {
  if (replicas.length === 0) return ["no gateway is running on it"];
  return replicas.map(({ id, name, version, silentMs, isSilent }) => {
    const silent = `last heartbeat ${secondsText(silentMs)} ago`;
    const state = isSilent ? `${silent}: the next gateway ends it` : silent;
    return `replica ${id} on ${name}: version ${version}, ${state}`;
  });
}

function clockProblem({ ms, within }: ServerInspection["clockSkew"]): string | undefined {
  if (Math.abs(ms) - within <= CLOCK_SKEW_MS_MAX) return undefined;
  const direction = ms > 0 ? "behind" : "ahead of";
  return `this machine's clock is ${secondsText(Math.abs(ms))} ${direction} that of the PostgreSQL server`;
}

function secondsText(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Checks the hot standby that answers reports. */
export async function examineStandby(
  standby: ServerAddress,
  primary: ServerAddress,
): Promise<Verdict> {
  try {
    const { lagMs, schema, isSameDatabase } = await inspectStandby(standby, primary);
    const line = `${standby.shownUrl} (schema ${schema?.applied} of ${schema?.known}): ${behindText(lagMs)}`;
    if ((lagMs ?? 0) > STANDBY_LAG_MS_MAX) return failed(`${line}: see the log of its server`);
    if (isSameDatabase !== undefined) return passed(line);
    return passed(
      line,
      `${primary.shownUrl} gives no answer: whether it has the same database is not known`,
    );
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return failed(error.message);
  }
}

/** Half of the time that a request waits for an answer. */
const ANSWER_MS_MAX = serverTimes.answerWithinMs / 2;

/** Asks the Valkey or Redis server that counts limits, as the gateways do. They may run on it. */
export async function examineLimitsServer(redis: {
  readonly url: string;
  readonly shownUrl: string;
}): Promise<Verdict> {
  return judgeLimitsServer(redis.shownUrl, await inspectLimitsServer(redis.url));
}

export function judgeLimitsServer(
  shownUrl: string,
  found: LimitsServerInspection | ServerProblem,
): Verdict {
  const share = "each gateway allows only its share of the limits";
  if (found instanceof ServerProblem)
    return failed(`${shownUrl} cannot be used, so ${share}: ${found.words}`);
  const { version, answerMs, memory } = found;
  const { answerWithinMs } = serverTimes;
  const facts = `${shownUrl} (${version}, answers in ${answerMs.toFixed(1)} ms)`;
  const evicts = memory !== undefined && memory.bytesMax > 0 && memory.policy !== "noeviction";
  const warnings = evicts
    ? [
        `warning: with full memory (${bytesText(memory.bytesMax)}) it removes keys (maxmemory-policy ${memory.policy}), and a limit then begins anew: set maxmemory-policy noeviction`,
      ]
    : [];
  if (answerMs <= ANSWER_MS_MAX) return passed(facts, ...warnings);
  return failed(
    `${facts}: too slow, and without an answer within ${answerWithinMs} ms ${share}: use a server in the same network`,
    ...warnings,
  );
}
