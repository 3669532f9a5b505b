import { ApiError } from "../../contract/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import { UnsupportedRequestError } from "../../providers/provider.ts";
import type { HeldBytes, LargeText } from "./largeText.ts";
import type { CheckName, TaskName, Tasks } from "./tasks.ts";
import type { TaskMessage, TaskReply } from "./worker.ts";

/** A longer body would take the main thread for milliseconds: the Worker checks and translates it. */
export const LARGE_BODY_BYTES = 262_144;

/** The Worker ends when it had nothing to do for so long, and gives its memory back. */
const IDLE_MS = 30_000;

/**
 * The rest before the next body, as a multiple of the time that the tasks took. Reading and sending a body takes the main
 * thread about half as long as its check takes the Worker, so large bodies use an eighth of the main thread.
 */
const REST_FACTOR = 3;
/** A rest is never longer, also if the Worker stood still for another reason. */
const REST_MS_MAX = 2000;

/** Runs a task on one body, in the Worker. */
export type RunTask = <Name extends TaskName>(
  name: Name,
  data: Parameters<Tasks[Name]>[1],
) => Promise<ReturnType<Tasks[Name]>>;

interface Task {
  readonly message: Omit<TaskMessage, "body">;
  readonly held: HeldBytes;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/**
 * Large bodies, in a Worker, so that the requests of others do not wait for them. The bodies of the accounts take turns, with
 * a rest between two of them. The Worker is started for the first body, and again after it has ended.
 */
export class LargeBodies {
  readonly #clock: Clock;
  readonly #start: () => Worker;
  /** The checks that wait, by account. The first account is the next one. */
  readonly #checks = new Map<number, Task[]>();
  /** Later tasks of bodies that are checked. */
  readonly #later: Task[] = [];
  #running: Task | undefined;
  #startedMs = 0;
  #restsUntilMs = 0;
  #worker: Worker | undefined;
  /** Wakes at the end of the rest. */
  #rest: Timer | undefined;
  #idle: Timer | undefined;

  constructor(clock: Clock, start = startWorker) {
    this.#clock = clock;
    this.#start = start;
  }

  /**
   * Checks a body in its account's turn. The body is not at hand until the promise has settled. Rejects with ApiError, and
   * with an Error if the Worker fails.
   */
  check<Name extends CheckName>(
    accountId: number,
    held: HeldBytes,
    name: Name,
    data: Parameters<Tasks[Name]>[1],
  ): Promise<ReturnType<Tasks[Name]>> {
    return this.#add({ name, data }, held, (task) => {
      const others = this.#checks.get(accountId);
      if (others) others.push(task);
      else this.#checks.set(accountId, [task]);
    });
  }

  /**
   * Makes the function that runs later tasks on a body, one after the other. It rejects with what the task throws: ApiError
   * or UnsupportedRequestError, and with an Error if the Worker fails.
   */
  runnerFor(held: LargeText): RunTask {
    return (name, data) => this.#add({ name, data }, held, (task) => void this.#later.push(task));
  }

  /** All requests have ended. */
  close(): void {
    clearTimeout(this.#rest);
    clearTimeout(this.#idle);
    this.#checks.clear();
    this.#later.length = 0;
    this.#end(this.#worker, "the gateway stops");
  }

  #add<Result>(
    message: Task["message"],
    held: HeldBytes,
    enqueue: (task: Task) => void,
  ): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      enqueue({ message, held, reject, resolve: (result) => resolve(result as Result) });
      this.#runNext();
    });
  }

  #runNext(): void {
    if (this.#running) return;
    clearTimeout(this.#idle);
    const task = this.#later.shift() ?? this.#nextCheck();
    if (task === undefined) {
      this.#idle = setTimeout(() => this.#end(this.#worker, "it is idle"), IDLE_MS).unref();
      return;
    }
    this.#running = task;
    this.#startedMs = this.#clock.monotonicMs();
    const { bytes } = task.held;
    const message: TaskMessage = { ...task.message, body: bytes };
    this.#worker ??= this.#started();
    try {
      this.#worker.postMessage(message, [bytes.buffer as ArrayBuffer]);
    } catch (cause) {
      this.#running = undefined;
      task.reject(new Error("a large body: it cannot be sent to the Worker", { cause }));
      this.#runNext();
    }
  }

  /** Undefined while there is none, or a rest. */
  #nextCheck(): Task | undefined {
    const [next] = this.#checks;
    if (next === undefined) return undefined;
    const restMs = this.#restsUntilMs - this.#clock.monotonicMs();
    if (restMs > 0) {
      clearTimeout(this.#rest);
      this.#rest = setTimeout(() => this.#runNext(), restMs);
      return undefined;
    }
    const [accountId, [task, ...others]] = next;
    this.#checks.delete(accountId);
    if (others.length > 0) this.#checks.set(accountId, others);
    return task;
  }

  #started(): Worker {
    const worker = this.#start();
    worker.onmessage = ({ data }: MessageEvent<TaskReply>) => this.#answered(data);
    worker.onerror = () => this.#end(worker, "the Worker failed");
    worker.addEventListener("close", () => this.#end(worker, "the Worker ended by itself"));
    return worker;
  }

  #answered({ body, outcome }: TaskReply): void {
    const task = this.#running;
    if (task === undefined) return;
    this.#running = undefined;
    const nowMs = this.#clock.monotonicMs();
    const restMs = REST_FACTOR * (nowMs - this.#startedMs);
    this.#restsUntilMs = Math.min(
      Math.max(this.#restsUntilMs, nowMs) + restMs,
      nowMs + REST_MS_MAX,
    );
    task.held.bytes = body;
    switch (outcome.kind) {
      case "result":
        task.resolve(outcome.result);
        break;
      case "refused":
        task.reject(new ApiError(outcome.status, outcome.message, { extra: outcome.extra }));
        break;
      case "unsupported":
        task.reject(new UnsupportedRequestError(outcome.message));
        break;
      case "failed":
        task.reject(new Error(`a large body: ${outcome.problem}`));
    }
    this.#runNext();
  }

  /** Ends the Worker, and its task with an error. The tasks that wait get another Worker. */
  #end(worker: Worker | undefined, problem: string): void {
    if (worker === undefined || worker !== this.#worker) return;
    this.#worker = undefined;
    worker.terminate();
    const task = this.#running;
    this.#running = undefined;
    if (task) {
      Object.defineProperty(task.held, "bytes", { get: bytesAreLost });
      task.reject(new Error(`a large body: ${problem}`));
    }
    if (this.#checks.size > 0 || this.#later.length > 0) this.#runNext();
  }
}

/** No route may get a body that is empty because the Worker had it. */
function bytesAreLost(): never {
  throw new Error("the body ended with its Worker");
}

function startWorker(): Worker {
  return new Worker(
    Bun.isStandaloneExecutable
      ? "./gateway/largeBodies/worker.ts"
      : new URL("./worker.ts", import.meta.url).href,
  );
}
