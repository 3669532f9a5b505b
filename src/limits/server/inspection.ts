import type { RedisClient } from "bun";
import { systemClock } from "../../lib/clock.ts";
import { callScript, connect, connectionTo } from "./limitsServer.ts";
import { problemOf, type ServerProblem } from "./serverProblem.ts";
import { probeCall } from "./scripts.ts";

/** What `doctor` reads from the limits server. */
export interface LimitsServerInspection {
  /** Such as `Valkey 8.1.1` or `Redis 7.2.4`. */
  readonly version: string;
  /** The median time of a call like that of a request. */
  readonly answerMs: number;
  /** Undefined: the user may not see it. */
  readonly memory:
    | {
        /** The memory limit; 0 means none. */
        readonly bytesMax: number;
        /** The server's policy at the limit, such as `noeviction`. */
        readonly policy: string;
      }
    | undefined;
}

/** An odd number, so that one of them is the median. */
const CALLS = 9;
const INSPECTED_WITHIN_MS = 6000;

/** Asks the server as a gateway does. It leaves one key, which expires after two minutes. Never rejects. */
export async function inspectLimitsServer(
  url: string,
): Promise<LimitsServerInspection | ServerProblem> {
  const client = connectionTo(url);
  const timer = setTimeout(() => client.close(), INSPECTED_WITHIN_MS);
  try {
    return await inspect(client);
  } catch (error) {
    return problemOf(error);
  } finally {
    clearTimeout(timer);
    client.close();
  }
}

async function inspect(client: RedisClient): Promise<LimitsServerInspection> {
  await connect(client);
  const times: number[] = [];
  for (let call = 0; call < CALLS; call += 1) {
    const startedMs = systemClock.monotonicMs();
    await callScript(client, probeCall);
    times.push(systemClock.monotonicMs() - startedMs);
  }
  // A user who may count limits need not have the right to see this.
  const text: unknown = await client.send("INFO", []).catch(() => "");
  const info = fieldsOf(typeof text === "string" ? text : "");
  const policy = info.get("maxmemory_policy");
  return {
    version: versionIn(info),
    answerMs: times.toSorted((a, b) => a - b)[(CALLS - 1) / 2] ?? 0,
    memory:
      policy === undefined ? undefined : { bytesMax: Number(info.get("maxmemory") ?? 0), policy },
  };
}

/** Valkey also reports the version of Redis that it is compatible with. */
function versionIn(info: ReadonlyMap<string, string>): string {
  const valkey = info.get("valkey_version");
  if (valkey !== undefined) return `Valkey ${valkey}`;
  const redis = info.get("redis_version");
  return redis === undefined ? "a version that this user may not see" : `Redis ${redis}`;
}

/** The lines `name:value` of INFO. */
function fieldsOf(text: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1));
  }
  return fields;
}
