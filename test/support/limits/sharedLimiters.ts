import { RedisClient } from "bun";
import {
  openSharedRates,
  type SharedRates,
  type SharedTimes,
} from "../../../src/limits/sharedRates.ts";
import { systemClock, type Clock } from "../../../src/lib/clock.ts";
import { until } from "../until.ts";
import { noLimits } from "../gateway/permits.ts";
import type { KeyLimits } from "../../../src/limits/keyRates.ts";
import type { RateLimitAdmission } from "../../../src/limits/rateLimits.ts";

/** A limiter of one replica, and what its listener was told. */
export interface TestReplica {
  readonly limiter: SharedRates;
  readonly problems: string[];
  readonly outages: { readonly durationMs: number; readonly byShare: number }[];
  readonly admit: (keyId: number, limits: Partial<KeyLimits>) => Promise<RateLimitAdmission>;
  /** Resolves when the server is asked. */
  readonly isUsed: () => Promise<void>;
  /** Resolves when the server is not asked any more. */
  readonly isLost: () => Promise<void>;
}

/** No answer is too late on a busy machine, and an outage is over soon. */
export const patientTimes: Partial<SharedTimes> = {
  answerWithinMs: 10_000,
  pauseMs: 20,
  steadyMs: 20,
};

export interface ReplicaSettings {
  readonly clock?: Clock;
  /** How many replicas this one believes to be alive. */
  readonly replicas?: number;
  readonly times?: Partial<SharedTimes>;
}

export function openReplica(url: string, settings: ReplicaSettings = {}): TestReplica {
  const { clock = systemClock, replicas = 1, times } = settings;
  const problems: string[] = [];
  const outages: TestReplica["outages"] = [];
  const limiter = openSharedRates({
    url,
    clock,
    replicas: () => replicas,
    listener: {
      lost: (problem) => void problems.push(problem),
      back: (outage) => void outages.push(outage),
    },
    times: { ...patientTimes, ...times },
  });
  return {
    limiter,
    problems,
    outages,
    admit: async (keyId, limits) => await limiter.admit(keyId, { ...noLimits, ...limits }),
    isUsed: () => until("the server is asked", () => limiter.figures().isUsed),
    isLost: () => until("the server is not asked", () => !limiter.figures().isUsed),
  };
}

/** What the server has. It sees the keys as an operator with `redis-cli` does. */
export class ServerView implements AsyncDisposable {
  readonly #client: RedisClient;

  constructor(url: string) {
    this.#client = new RedisClient(url);
  }

  async send(command: string, ...args: readonly string[]): Promise<unknown> {
    return (await this.#client.send(command, [...args])) as unknown;
  }

  async keys(): Promise<readonly string[]> {
    return ((await this.send("KEYS", "*")) as string[]).toSorted();
  }

  /** The slots of a key that are not over. */
  async slots(keyId: number): Promise<number> {
    const [seconds, micros] = (await this.send("TIME")) as [string, string];
    const now = Number(seconds) * 1000 + Number(micros) / 1000;
    return Number(await this.send("ZCOUNT", `tollgate:slots:${keyId}`, String(now), "+inf"));
  }

  /** Lets all buckets believe that so much more time has passed. */
  async age(ms: number): Promise<void> {
    for (const key of await this.keys()) {
      if (!key.startsWith("tollgate:rates:")) continue;
      for (const field of (await this.send("HKEYS", key)) as string[])
        if (field.endsWith("_at")) await this.send("HINCRBYFLOAT", key, field, String(-ms));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
  }
}
