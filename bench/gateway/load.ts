// The load generator of bench/gateway.ts: a separate process, so that its CPU time is not counted.
// Raw sockets, HTTP/1.1 with keep-alive. Its orders come from the process that started it.
import type { Socket } from "bun";
import { JsonAnswerReader } from "./answerReader.ts";
import type { Call, Counters, Order, RateResult, Report } from "./loadOrders.ts";

/** Fewer than the 512 connections that may wait to be accepted by Bun's server. */
const DIALS_AT_ONCE = 100;
const FAILURE_CHARS_MAX = 300;
const ANSWER_MS_MAX = 10_000;

const nothing: Counters = {
  answers: 0,
  events: 0,
  eventReads: 0,
  bytes: 0,
  begun: 0,
  failures: 0,
  firstFailure: "",
};
const counters: { -readonly [Name in keyof Counters]: Counters[Name] } = { ...nothing };

/** The times of the answers of timed loops since the last sample. */
let loopMs: number[] = [];
/** The delays of the events that tell when they were sent, since the last sample. */
let eventMs: number[] = [];
const SENT = Buffer.from("sent ");
const SENT_CHARS = "1700000000000.000".length;

const open = new Set<Connection>();

function fail(words: string): void {
  counters.failures += 1;
  counters.firstFailure ||= words.slice(0, FAILURE_CHARS_MAX);
}

/** The times that the events of a `timed` stream tell. */
function readTimes(bytes: Buffer): void {
  const nowMs = performance.timeOrigin + performance.now();
  let at = bytes.indexOf(SENT);
  while (at >= 0) {
    const from = at + SENT.length;
    eventMs.push(nowMs - Number(bytes.toString("latin1", from, from + SENT_CHARS)));
    at = bytes.indexOf(SENT, from);
  }
}

/** One connection, with at most one request in flight. */
class Connection {
  /** Called when an answer is complete, or can not become so any more. */
  onAnswer: () => void = () => {};
  onFirstByte: () => void = () => {};
  socket: Socket<Connection> | undefined;
  isTimed = false;
  readonly #reader = new JsonAnswerReader();
  #unsent: Buffer | undefined;
  #isBusy = false;
  #hasByte = false;
  #hasEvent = false;

  send(request: Buffer): void {
    this.#isBusy = true;
    this.#hasByte = false;
    this.#hasEvent = false;
    this.#unsent = request;
    this.drain();
  }

  drain(): void {
    if (this.#unsent === undefined || this.socket === undefined) return;
    const written = Math.max(0, this.socket.write(this.#unsent));
    this.#unsent = written < this.#unsent.length ? this.#unsent.subarray(written) : undefined;
  }

  receive(bytes: Buffer): void {
    counters.bytes += bytes.length;
    if (!this.#hasByte) {
      this.#hasByte = true;
      this.onFirstByte();
    }
    const reader = this.#reader;
    const isWhole = reader.push(bytes);
    if (reader.events > 0) {
      counters.events += reader.events;
      counters.eventReads += 1;
      if (!this.#hasEvent) counters.begun += 1;
      this.#hasEvent = true;
      if (this.isTimed) readTimes(bytes);
    }
    if (reader.status >= 300) fail(bytes.toString("latin1"));
    if (!isWhole) return;
    counters.answers += 1;
    this.#isBusy = false;
    reader.reset();
    this.onAnswer();
  }

  /** The other side closed it. */
  lost(): void {
    if (!open.delete(this) || !this.#isBusy) return;
    fail("the connection was closed before the answer was whole");
    this.onAnswer();
  }

  close(): void {
    open.delete(this);
    this.socket?.terminate();
  }
}

async function dial(port: number): Promise<Connection> {
  const connection = new Connection();
  connection.socket = await Bun.connect<Connection>({
    hostname: "127.0.0.1",
    port,
    data: connection,
    socket: {
      data: (socket, bytes) => socket.data.receive(bytes),
      drain: (socket) => socket.data.drain(),
      close: (socket) => socket.data.lost(),
      error: () => {},
    },
  });
  open.add(connection);
  return connection;
}

async function loop({
  port,
  requests,
  atOnce,
  isTimed = false,
}: Call & { atOnce: number; isTimed?: boolean }): Promise<void> {
  const next = inTurn(requests);
  for (let dialled = 0; dialled < atOnce; dialled += DIALS_AT_ONCE) {
    const count = Math.min(DIALS_AT_ONCE, atOnce - dialled);
    const fresh = await Promise.all(Array.from({ length: count }, () => dial(port)));
    for (const connection of fresh) {
      connection.isTimed = isTimed;
      let sentMs = 0;
      const send = (): void => {
        sentMs = performance.now();
        connection.send(next());
      };
      connection.onAnswer = () => {
        if (isTimed) loopMs.push(performance.now() - sentMs);
        if (open.has(connection)) send();
      };
      send();
    }
  }
}

function inTurn(requests: readonly string[]): () => Buffer {
  const all = requests.map((request) => Buffer.from(request));
  let sent = 0;
  return () => all[sent++ % all.length] ?? Buffer.alloc(0);
}

async function rate(
  call: Call & { perSecond: number; count: number; atOnce?: number; isNew?: boolean },
): Promise<RateResult> {
  const { atOnce = 1, isNew = false } = call;
  const next = inTurn(call.requests);
  const idle = isNew
    ? []
    : await Promise.all(Array.from({ length: atOnce }, () => dial(call.port)));
  const firstByteMs: number[] = [];
  const totalMs: number[] = [];
  const once = async (): Promise<void> => {
    const dialledMs = performance.now();
    const connection = idle.pop() ?? (await dial(call.port));
    const failuresBefore = counters.failures;
    const sentMs = isNew ? dialledMs : performance.now();
    const whole = Promise.withResolvers<true>();
    let firstMs = 0;
    connection.onFirstByte = () => {
      firstMs = performance.now() - sentMs;
    };
    connection.onAnswer = () => whole.resolve(true);
    connection.send(next());
    const isWhole = await Promise.race([whole.promise, Bun.sleep(ANSWER_MS_MAX)]);
    if (isWhole !== true) fail(`no whole answer in ${ANSWER_MS_MAX} ms`);
    if (isWhole !== true || counters.failures > failuresBefore) return connection.close();
    totalMs.push(performance.now() - sentMs);
    firstByteMs.push(firstMs);
    if (isNew) connection.close();
    else idle.push(connection);
  };
  const startedMs = performance.now();
  const all: Promise<void>[] = [];
  for (let at = 0; at < call.count; at += 1) {
    await Bun.sleep(Math.max(0, startedMs + (at * 1000) / call.perSecond - performance.now()));
    for (let member = 0; member < atOnce; member += 1) all.push(once());
  }
  await Promise.all(all);
  for (const connection of idle) connection.close();
  return { firstByteMs, totalMs };
}

/** Reads what one tick allows, then pauses until the next. */
async function slow({ port, requests, bytesPerSecond }: Call & { bytesPerSecond: number }) {
  const connection = await dial(port);
  const startedMs = performance.now();
  const startBytes = counters.bytes;
  const whole = Promise.withResolvers<void>();
  connection.onAnswer = whole.resolve;
  let isPaused = false;
  const pace = setInterval(() => {
    const allowed = ((performance.now() - startedMs) / 1000) * bytesPerSecond;
    const isAhead = counters.bytes - startBytes > allowed;
    if (isAhead === isPaused) return;
    isPaused = isAhead;
    if (isAhead) connection.socket?.pause();
    else connection.socket?.resume();
  }, 5);
  connection.send(inTurn(requests)());
  await whole.promise;
  clearInterval(pace);
  connection.close();
}

async function obey(order: Order): Promise<Report> {
  const rates = order.kind === "rate" ? { rate: await rate(order) } : {};
  if (order.kind === "loop") await loop(order);
  if (order.kind === "slow") await slow(order);
  const times = order.kind === "sample" ? { loopMs, eventMs } : {};
  const report = { counters: { ...counters }, ...rates, ...times };
  if (order.kind === "sample" || order.kind === "stop") {
    loopMs = [];
    eventMs = [];
  }
  if (order.kind === "stop") {
    for (const connection of open) connection.close();
    Object.assign(counters, nothing);
  }
  return report;
}

process.on("message", ({ id, order }: { id: number; order: Order }) => {
  obey(order)
    .catch((error: unknown): Report => {
      fail(String(error));
      return { counters: { ...counters } };
    })
    .then((report) => process.send?.({ id, report }))
    .catch(() => process.exit(1));
});
// The parent process has ended.
process.on("disconnect", () => process.exit(0));
process.send?.("ready");
