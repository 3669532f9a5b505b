import { Deadline, type Deadlines } from "../lib/clock.ts";
import type { Answer, Relay, StreamChunk } from "./answer.ts";

/**
 * Resolves with `answer`, or with what `early` makes if `answer` takes longer than `waitMs`. `waitMs` 0: with `answer`,
 * however long it takes.
 */
export function withEarlyHead(
  deadlines: Deadlines,
  waitMs: number,
  answer: Promise<Answer>,
  early: () => Answer,
): Promise<Answer> {
  if (waitMs === 0) return answer;
  const opened = Promise.withResolvers<Answer>();
  const wait = new Deadline(deadlines, () => opened.resolve(early()));
  wait.set(waitMs);
  void settleWith(opened, answer, wait);
  return opened.promise;
}

/** Settles `opened` with the answer, unless `wait` has passed. */
async function settleWith(
  opened: PromiseWithResolvers<Answer>,
  answer: Promise<Answer>,
  wait: Deadline,
): Promise<void> {
  try {
    opened.resolve(await answer);
  } catch (error) {
    opened.reject(error);
  } finally {
    wait.clear();
  }
}

/** A relay that waits for another one. A separate function, because it outlives the call. */
export function lateRelay(beginning: Promise<Relay>): Relay {
  let relay: Relay | undefined;
  return {
    ready: (send) =>
      relay === undefined
        ? beginning.then((begun) => {
            relay = begun;
            return relay.ready(send);
          })
        : relay.ready(send),
    take: () => relay?.take(),
    pause: () => relay?.pause(),
    resume: () => relay?.resume(),
  };
}

export function singleChunkRelay(chunk: StreamChunk): Relay {
  let left: StreamChunk | undefined = chunk;
  return {
    ready: () => undefined,
    take() {
      const taken = left;
      left = undefined;
      return taken;
    },
    pause() {},
    resume() {},
  };
}

/** Bun prints an error that a body throws. The log line of the request has the cause. */
const NO_ERROR: unknown = undefined;

/** A relay that closes the connection. */
export const brokenRelay: Relay = {
  ready: () => undefined,
  take() {
    throw NO_ERROR;
  },
  pause() {},
  resume() {},
};
