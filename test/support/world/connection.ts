import type { Socket } from "bun";
import { JsonAnswerReader, type RawAnswer } from "./answerReader.ts";

/** How a client disconnects: it closes its side and reads to the end, or it resets. */
export type DisconnectWay = "fin" | "reset";

/** An answer that was not taken; `index` counts all answers of the connection. */
export interface UntakenAnswer {
  readonly answer: RawAnswer;
  readonly index: number;
}

export interface Connection {
  /** The error of bytes that are no answers. */
  readonly problem: string | undefined;
  /** The server closed it within an answer. */
  readonly isAborting: boolean;
  /** The bytes of an incomplete answer. */
  readonly part: Buffer;
  send(bytes: Uint8Array): void;
  /** The next answer; `closed` if there is none, `late` if none arrived in time. */
  next(timeoutMs: number): Promise<RawAnswer | "closed" | "late">;
  /** Disconnects. Resolves with the answers that were not taken; undefined if the server keeps the connection open too long. */
  disconnect(how: DisconnectWay, timeoutMs: number): Promise<readonly UntakenAnswer[] | undefined>;
}

/** Connects to 127.0.0.1. `isHead` says by an answer's index whether it is to a HEAD. */
export async function openConnection(
  port: number,
  isHead: (index: number) => boolean,
): Promise<Connection> {
  const connection = new ReadingConnection(new JsonAnswerReader(isHead));
  await Bun.connect({
    hostname: "127.0.0.1",
    port,
    allowHalfOpen: true,
    socket: {
      open: (socket) => connection.open(socket),
      data: (_, bytes) => connection.received(bytes),
      drain: () => connection.flush(),
      end: (socket) => void socket.end(),
      close: () => connection.closed(),
      error: () => {},
    },
  });
  return connection;
}

class ReadingConnection implements Connection {
  problem: string | undefined;
  isAborting = false;
  readonly #reader: JsonAnswerReader;
  readonly #answers: RawAnswer[] = [];
  #takenCount = 0;
  #socket: Socket | undefined;
  #unsent: Uint8Array = new Uint8Array(0);
  #hasLeft = false;
  #isClosed = false;
  #wake: () => void = () => {};

  constructor(reader: JsonAnswerReader) {
    this.#reader = reader;
  }

  get part(): Buffer {
    return this.#reader.unread;
  }

  open(socket: Socket): void {
    this.#socket = socket;
  }

  send(bytes: Uint8Array): void {
    this.#unsent = this.#unsent.length === 0 ? bytes : Buffer.concat([this.#unsent, bytes]);
    this.flush();
  }

  async next(timeoutMs: number): Promise<RawAnswer | "closed" | "late"> {
    const isIn = await this.#within(timeoutMs, () => this.#answers.length > 0 || this.#isClosed);
    if (!isIn) return "late";
    const answer = this.#answers.shift();
    if (answer === undefined) return "closed";
    this.#takenCount += 1;
    return answer;
  }

  async disconnect(
    how: DisconnectWay,
    timeoutMs: number,
  ): Promise<readonly UntakenAnswer[] | undefined> {
    this.#hasLeft = true;
    if (how === "reset") this.#socket?.terminate();
    else this.#socket?.shutdown();
    const isGone = await this.#within(timeoutMs, () => this.#isClosed);
    if (!isGone) this.#socket?.terminate();
    if (!isGone) return undefined;
    return this.#answers.map((answer, at) => ({ answer, index: this.#takenCount + at }));
  }

  /** Sends what the system takes now; the rest is sent on `drain`. */
  flush(): void {
    if (this.#unsent.length === 0 || this.#isClosed) return;
    const sentBytes = Math.max(this.#socket?.write(this.#unsent) ?? 0, 0);
    this.#unsent = this.#unsent.subarray(sentBytes);
  }

  received(bytes: Buffer): void {
    this.#take(() => this.#reader.read(bytes));
  }

  closed(): void {
    // A client that disconnects first may miss the rest.
    if (!this.#hasLeft) {
      this.#take(() => this.#reader.end());
      this.isAborting = !this.#reader.isBetween;
    }
    this.#isClosed = true;
    this.#wake();
  }

  #take(read: () => RawAnswer[]): void {
    if (this.problem !== undefined) return;
    try {
      this.#answers.push(...read());
    } catch (error) {
      this.problem = String(error);
    }
    this.#wake();
  }

  /** Whether the condition becomes true in time. It is checked at each event of the connection. */
  async #within(timeoutMs: number, condition: () => boolean): Promise<boolean> {
    const deadlineMs = performance.now() + timeoutMs;
    while (!condition()) {
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) return false;
      const event = Promise.withResolvers<void>();
      this.#wake = event.resolve;
      const timer = setTimeout(event.resolve, leftMs);
      await event.promise;
      clearTimeout(timer);
    }
    return true;
  }
}
