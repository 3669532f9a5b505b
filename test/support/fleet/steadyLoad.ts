import { chat } from "../gateway/chatCalls.ts";
import type { Fleet } from "./fleet.ts";

const PAUSE_MS = 60;
const HEALTH_EVERY_MS = 100;

/** One request of a steady load. */
export interface LoadAnswer {
  readonly account: string;
  /** 0: the connection broke. */
  readonly status: number;
  readonly retryAfter: string | null;
  readonly tookMs: number;
}

/** Clients that ask each replica of a fleet. */
export interface SteadyLoad {
  /** The whole answers so far. */
  readonly answers: readonly LoadAnswer[];
  /** What `/healthz` answered at the replicas so far. */
  readonly health: readonly number[];
  /** No client sends another request. Resolves when all open ones are answered. */
  end(): Promise<void>;
}

/** What each client of this account sends. */
export interface Asking {
  readonly account: string;
  readonly key: string;
  /** Clients at each replica. */
  readonly clients: number;
}

/** Each client sends one request after the other to one replica. The fleet's auditor sees the answers. */
export function startSteadyLoad(
  { replicas, auditor }: Pick<Fleet, "replicas" | "auditor">,
  asking: readonly Asking[],
): SteadyLoad {
  const answers: LoadAnswer[] = [];
  const health: number[] = [];
  const state = { isOver: false };
  const client = async (url: string, { account, key }: Asking): Promise<void> => {
    while (!state.isOver) {
      const beganMs = performance.now();
      const reply = await chat({ url, auditor }, { key }).catch(() => undefined);
      answers.push({
        account,
        status: reply?.status ?? 0,
        retryAfter: reply?.headers.get("retry-after") ?? null,
        tookMs: performance.now() - beganMs,
      });
      await Bun.sleep(PAUSE_MS);
    }
  };
  const watch = async (url: string): Promise<void> => {
    while (!state.isOver) {
      const reply = await fetch(`${url}/healthz`).catch(() => undefined);
      health.push(reply?.status ?? 0);
      await Bun.sleep(HEALTH_EVERY_MS);
    }
  };
  const running = replicas.flatMap(({ process: { url } }) => [
    watch(url),
    ...asking.flatMap((one) => Array.from({ length: one.clients }, () => client(url, one))),
  ]);
  return {
    answers,
    health,
    async end() {
      state.isOver = true;
      await Promise.all(running);
    },
  };
}

/** The statuses of the answers to an account, each once and in order. */
export function statusesOf(answers: readonly LoadAnswer[], account: string): readonly number[] {
  const ofAccount = answers.filter((one) => one.account === account);
  return [...new Set(ofAccount.map(({ status }) => status))].toSorted((one, other) => one - other);
}

/** The time of 99 of 100 answers to an account, and of the last one, in whole milliseconds. */
export function timesOf(
  answers: readonly LoadAnswer[],
  account: string,
): { readonly mostMs: number; readonly lastMs: number } {
  const times = answers.filter((one) => one.account === account).map(({ tookMs }) => tookMs);
  times.sort((one, other) => one - other);
  const at = (index: number) => Math.round(times[index] ?? NaN);
  return { mostMs: at(Math.ceil(times.length * 0.99) - 1), lastMs: at(times.length - 1) };
}
