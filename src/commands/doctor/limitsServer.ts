import {
  inspectLimitsServer,
  type LimitsServerInspection,
} from "../../limits/server/inspection.ts";
import { serverTimes } from "../../limits/server/limitsServer.ts";
import { ServerProblem } from "../../limits/server/serverProblem.ts";
import { failed, passed, type Verdict } from "./verdict.ts";
import { bytesText } from "../../lib/terminal.ts";

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
