import { RedisClient } from "bun";
import { setImmediate } from "node:timers/promises";
import { systemClock } from "../../lib/clock.ts";
import { problemOf, ServerProblem, slowerThan } from "./serverProblem.ts";
import { probeCall, scriptTexts, type Reply, type ScriptCall } from "./scripts.ts";

/** The times of a connection. Tests use other ones. */
export interface ServerTimes {
  /** A later answer does not count. */
  readonly answerWithinMs: number;
  /** After a failure the server is not asked for this long. Then one probe decides. */
  readonly pauseMs: number;
  /** An outage is over when the server has answered for this long. */
  readonly steadyMs: number;
  /**
   * Calls that were kept for longer than this are not sent after an outage: by then the bucket is refilled and the
   * slot has ended.
   */
  readonly unsentForMs: number;
}

export const serverTimes: ServerTimes = {
  answerWithinMs: 10,
  pauseMs: 250,
  steadyMs: 2000,
  unsentForMs: 60_000,
};

/** Events of a connection. The calls must not throw. */
export interface ServerListener {
  /** From now on the server is asked. */
  usable(): void;
  /** Called once for each outage, and again if the server turns out to refuse this client. */
  lost(problem: string): void;
  /** The outage is over. */
  back(durationMs: number): void;
}

/** TLS and a name that must be looked up need longer than an answer. */
const CONNECT_WITHIN_MS = 2000;
/** A connection on which a probe waits longer than this is replaced. */
const HANGS_AFTER_MS = 2000;
/** Calls that need no answer are kept during an outage, up to this number. What is lost then ends or refills by itself. */
const UNSENT_MAX = 10_000;
const SENT_AT_ONCE = 200;
const CLOSE_WITHIN_MS = 200;

type Answer = Reply | ServerProblem;

/** The calls of one turn of the event loop. They are written to the socket at the end of the turn, and their time-out counts from there. */
interface Turn {
  dueMs: number;
}

/** A call without an answer so far. */
interface OpenCall {
  readonly turn: Turn;
  readonly resolve: (answer: Answer) => void;
}

/** A call that the server has not got yet. */
interface UnsentCall {
  readonly call: ScriptCall;
  readonly atMs: number;
}

interface Outage {
  readonly sinceMs: number;
  readonly reported: Set<string>;
}

/**
 * One connection to a Valkey or Redis server. While it is not usable, the server is not asked: no request waits for a
 * server that is gone. The client connects again and again, and never sends a command a second time.
 */
export class LimitsServer {
  readonly #client: RedisClient;
  readonly #times: ServerTimes;
  readonly #listener: ServerListener;
  readonly #slow: ServerProblem;
  /** In the order of the calls, oldest first. */
  readonly #open = new Set<OpenCall>();
  #turn: Turn | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #unsent: UnsentCall[] = [];
  #outage: Outage | undefined;
  #steadyTimer: ReturnType<typeof setTimeout> | undefined;
  #isUsable = false;
  #isClosed = false;

  constructor(url: string, times: ServerTimes, listener: ServerListener) {
    this.#client = connectionTo(url);
    this.#times = times;
    this.#listener = listener;
    this.#slow = slowerThan(times.answerWithinMs);
    this.#client.onclose = (error) => this.#lose(problemOf(error));
    void this.#recover();
  }

  get isUsable(): boolean {
    return this.#isUsable;
  }

  /**
   * The answer of the server, or undefined if the server is not usable or does not answer in time. `onLate` gets an
   * answer that comes later, and nothing if none will come.
   */
  async ask(call: ScriptCall, onLate: (reply?: Reply) => void): Promise<Reply | undefined> {
    if (!this.#isUsable) return undefined;
    const answer = await this.#call(call, onLate);
    if (!(answer instanceof ServerProblem)) return answer;
    this.#lose(answer);
    return undefined;
  }

  /**
   * Sends a call whose answer does not matter, at once or when the server is usable again. After an outage only those of the
   * last minute are sent.
   */
  send(call: ScriptCall): void {
    if (this.#isUsable) void this.#run(call).catch(ignored);
    else {
      this.#unsent.push({ call, atMs: systemClock.monotonicMs() });
      if (this.#unsent.length > UNSENT_MAX) this.#unsent.shift();
    }
  }

  /** Waits a moment for what was sent, and closes the connection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#steadyTimer);
    // The server answers in order.
    if (this.#isUsable)
      await Promise.race([this.#client.send("PING", []).catch(ignored), pause(CLOSE_WITHIN_MS)]);
    this.#isUsable = false;
    this.#client.close();
  }

  #call(call: ScriptCall, onLate: (reply?: Reply) => void): Promise<Answer> {
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const open: OpenCall = { turn: this.#turn ?? this.#beginTurn(), resolve };
    this.#open.add(open);
    void this.#finish(open, call, onLate);
    return promise;
  }

  async #finish(open: OpenCall, call: ScriptCall, onLate: (reply?: Reply) => void): Promise<void> {
    const answer = await this.#run(call).catch(problemOf);
    if (this.#open.delete(open)) open.resolve(answer);
    else onLate(answer instanceof ServerProblem ? undefined : answer);
  }

  #run(call: ScriptCall): Promise<Reply> {
    return callScript(this.#client, call);
  }

  #beginTurn(): Turn {
    const turn: Turn = { dueMs: Infinity };
    this.#turn = turn;
    void this.#endTurn(turn);
    return turn;
  }

  async #endTurn(turn: Turn): Promise<void> {
    await setImmediate();
    this.#turn = undefined;
    turn.dueMs = systemClock.monotonicMs() + this.#times.answerWithinMs;
    this.#watch();
  }

  /** One timer for all calls: it is for the oldest one. */
  #watch(): void {
    const [oldest] = this.#open;
    if (this.#timer !== undefined || oldest === undefined || oldest.turn.dueMs === Infinity) return;
    const inMs = Math.max(0, Math.ceil(oldest.turn.dueMs - systemClock.monotonicMs()));
    this.#timer = setTimeout(() => void this.#judgeOldest(), inMs);
  }

  async #judgeOldest(): Promise<void> {
    const [oldest] = this.#open;
    if (oldest !== undefined && oldest.turn.dueMs <= systemClock.monotonicMs()) {
      // Two turns let this thread read what has arrived while it was busy.
      await setImmediate();
      await setImmediate();
      if (this.#open.has(oldest)) this.#giveUp();
    }
    this.#timer = undefined;
    this.#watch();
  }

  /** One call was not answered in time, so all open calls are given up. */
  #giveUp(): void {
    const calls = [...this.#open];
    this.#open.clear();
    for (const { resolve } of calls) resolve(this.#slow);
  }

  /** Begins an outage, if none has begun. */
  #lose(problem: ServerProblem): void {
    if (!this.#isUsable || this.#isClosed) return;
    this.#isUsable = false;
    this.#report(problem);
    void pause(this.#times.pauseMs).then(() => this.#recover());
  }

  #report({ words, isRefusal }: ServerProblem): void {
    clearTimeout(this.#steadyTimer);
    this.#outage ??= { sinceMs: systemClock.monotonicMs(), reported: new Set() };
    const { reported } = this.#outage;
    const isNew = isRefusal ? !reported.has(words) : reported.size === 0;
    reported.add(words);
    if (isNew) this.#listener.lost(words);
  }

  async #recover(): Promise<void> {
    while (!this.#isClosed) {
      const problem = await this.#try();
      if (this.#isClosed) return;
      if (problem === undefined) return this.#resume();
      this.#report(problem);
      await pause(this.#times.pauseMs);
    }
  }

  /** One probe. It must be answered as fast as the call of a request. */
  async #try(): Promise<ServerProblem | undefined> {
    try {
      if (!this.#client.connected) await this.#connect();
    } catch (error) {
      return problemOf(error);
    }
    const late = Promise.withResolvers<boolean>();
    const answer = await this.#call(probeCall, () => late.resolve(true));
    if (!(answer instanceof ServerProblem)) return undefined;
    if (answer === this.#slow) {
      const hasEnded = await Promise.race([late.promise, pause(HANGS_AFTER_MS)]);
      if (hasEnded !== true) this.#client.close();
    }
    return answer;
  }

  async #connect(): Promise<void> {
    await connect(this.#client);
    // The probe shows whether scripts may be loaded. A script that is loaded later would run after the calls that were
    // sent meanwhile.
    for (const text of scriptTexts) this.#client.send("SCRIPT", ["LOAD", text]).catch(ignored);
  }

  #resume(): void {
    this.#isUsable = true;
    if (this.#outage !== undefined)
      this.#steadyTimer = setTimeout(() => this.#endOutage(), this.#times.steadyMs).unref();
    this.#listener.usable();
    void this.#sendUnsent();
  }

  #endOutage(): void {
    if (this.#outage === undefined) return;
    const durationMs = systemClock.monotonicMs() - this.#outage.sinceMs;
    this.#outage = undefined;
    this.#listener.back(durationMs);
  }

  /** In small parts: the calls of requests must not wait behind thousands of these. */
  async #sendUnsent(): Promise<void> {
    const sinceMs = systemClock.monotonicMs() - this.#times.unsentForMs;
    this.#unsent = this.#unsent.filter(({ atMs }) => atMs > sinceMs);
    while (this.#isUsable && this.#unsent.length > 0) {
      const part = this.#unsent.splice(0, SENT_AT_ONCE);
      await Promise.allSettled(part.map(({ call }) => this.#run(call)));
    }
  }
}

/** A client that connects when `connect` is called, and at no other time. */
export function connectionTo(url: string): RedisClient {
  return new RedisClient(url, { autoReconnect: false, connectionTimeout: CONNECT_WITHIN_MS });
}

/**
 * Connects the client. Rejects with the reason if that fails: `RedisClient.connect` does not know it, but a command that
 * waits for the connection gets it. No other command is sent before the client is connected.
 */
export async function connect(client: RedisClient): Promise<void> {
  client.connect().catch(ignored);
  // The client's own time-out ends with the handshake.
  const timer = setTimeout(() => client.close(), CONNECT_WITHIN_MS + HANGS_AFTER_MS);
  try {
    await client.send("PING", []);
  } finally {
    clearTimeout(timer);
  }
}

/** Rejects with an error of the client. */
export async function callScript(
  client: RedisClient,
  { script, keys, args }: ScriptCall,
): Promise<Reply> {
  const rest = [String(keys.length), ...keys, ...args];
  const send = (command: string, text: string): Promise<unknown> =>
    client.send(command, [text, ...rest]);
  const reply = await send("EVALSHA", script.sha1).catch((error: unknown) => {
    // A restart or another program has removed the script. A client that is connecting would send it much later.
    if (!isUnknownScript(error) || !client.connected) throw error;
    return send("EVAL", script.text);
  });
  return Array.isArray(reply) ? (reply as Reply) : [];
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

function ignored(): void {
  // What is lost ends or refills by itself.
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
