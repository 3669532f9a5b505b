// The provider that bench/gateway.ts calls: raw sockets, so that it costs little and every event is a write
// of its own. The model of a request selects the answer; a prefix before ":" is ignored.
//   json        a JSON answer of about 1 KB
//   stream-N    a stream of N events of 250 bytes, as fast as possible, with an end and its usage
//   paced-N     an endless stream; of all such streams together N events come in a second
//   timed-N     the same, and each event tells when it was sent
//   flood       an endless stream, as fast as it is taken
//   silent      one event, then nothing
//   bulk        200 MB in events of 4 KB
// The "user" of a request is the turn of the benchmark, "turn-N": the endless streams of earlier turns then end,
// because a gateway may keep its provider's stream after its client disconnected.
import type { Socket, TCPSocketListener } from "bun";
import { readFileSync } from "node:fs";
import { lengthenQueues } from "../../src/http/connections/clientSockets.ts";

const EVENT_BYTES = 250;
const BULK_EVENT_BYTES = 4096;
const BULK_EVENTS = 200_000_000 / BULK_EVENT_BYTES;
const CHUNK_FIELDS = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m" };
/** The part of a body in which the benchmark names model and turn. */
const NAMES_BYTES = 4096;
const USAGE = { prompt_tokens: 500, completion_tokens: 200, total_tokens: 700 };

const jsonAnswer = jsonOf({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "An answer of some length. ".repeat(32) },
      logprobs: null,
      finish_reason: "stop",
    },
  ],
  usage: USAGE,
});
const streamHead = Buffer.from(
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
);
const event = contentEvent(EVENT_BYTES);
const bulkEvent = contentEvent(BULK_EVENT_BYTES);
const lastEvents = [
  eventOf({ ...CHUNK_FIELDS, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
  eventOf({ ...CHUNK_FIELDS, choices: [], usage: USAGE }),
  chunk("data: [DONE]\n\n"),
];
const lastChunk = Buffer.from("0\r\n\r\n");
const streamEnd = Buffer.concat([...lastEvents, lastChunk]);

function jsonOf(value: object): Buffer {
  const body = JSON.stringify(value);
  return Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
}

function chunk(text: string): Buffer {
  return Buffer.from(`${text.length.toString(16)}\r\n${text}\r\n`);
}

function eventOf(value: object): Buffer {
  return chunk(`data: ${JSON.stringify(value)}\n\n`);
}

/** An event of this length, without its chunk framing. */
function contentEvent(bytes: number): Buffer {
  const room = bytes - contentText("").length;
  return chunk(contentText("word ".repeat(Math.ceil(room / 5)).slice(0, room)));
}

function contentText(content: string): string {
  const choices = [{ index: 0, delta: { content }, finish_reason: null }];
  return `data: ${JSON.stringify({ ...CHUNK_FIELDS, choices })}\n\n`;
}

/** An event of now: load.ts reads the time. */
function timedEvent(): Buffer {
  const now = performance.timeOrigin + performance.now();
  return chunk(contentText(`sent ${now.toFixed(3)} `));
}

/** One connection of a gateway. */
class Client {
  readonly socket: Socket<Client>;
  private received = "";
  /** Bytes of the request that have not arrived; undefined before the end of its head. */
  private missing: number | undefined;
  private unsent: Buffer | undefined;
  private onDrained: () => void = () => {};

  constructor(socket: Socket<Client>) {
    this.socket = socket;
  }

  get isWaiting(): boolean {
    return this.unsent !== undefined;
  }

  receive(bytes: Buffer): void {
    if (this.missing === undefined) {
      this.received += bytes.toString("latin1");
      const headEnd = this.received.indexOf("\r\n\r\n");
      if (headEnd < 0) return;
      const length = /content-length: *(\d+)/i.exec(this.received)?.[1];
      this.missing = headEnd + 4 + Number(length ?? 0) - this.received.length;
    } else {
      if (this.received.length < NAMES_BYTES) this.received += bytes.toString("latin1");
      this.missing -= bytes.length;
    }
    // No client of this benchmark sends the next request before the answer.
    if (this.missing > 0) return;
    const model = /"model": ?"(?:[^":]*:)?([^"]*)"/.exec(this.received)?.[1] ?? "";
    const turn = /"user": ?"turn-(\d+)"/.exec(this.received)?.[1];
    this.received = "";
    this.missing = undefined;
    if (turn !== undefined) beginTurn(Number(turn));
    answer(this, model);
  }

  /** @returns whether the system took it at once */
  write(bytes: Buffer): boolean {
    const written = Math.max(0, this.socket.write(bytes));
    if (written < bytes.length) this.unsent = bytes.subarray(written);
    return this.unsent === undefined;
  }

  drained(): void {
    const { unsent } = this;
    if (unsent === undefined) return;
    this.unsent = undefined;
    if (this.write(unsent)) this.onDrained();
  }

  /** Writes them one by one, each when the one before was taken. */
  writeAll(pieces: Iterator<Buffer>): void {
    this.onDrained = () => this.writeAll(pieces);
    for (let next = pieces.next(); next.done !== true; next = pieces.next()) {
      if (!this.write(next.value)) return;
    }
    this.onDrained = () => {};
  }
}

/** Streams that get their events together, in turns. */
class Choir {
  private readonly members = new Set<Client>();
  private readonly eventsPerSecond: number;
  private readonly nextEvent: () => Buffer;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(eventsPerSecond: number, nextEvent: () => Buffer) {
    this.eventsPerSecond = eventsPerSecond;
    this.nextEvent = nextEvent;
  }

  join(client: Client): void {
    this.members.add(client);
    if (this.members.size === 1) this.sing(performance.now());
  }

  leave(client: Client): void {
    this.members.delete(client);
  }

  /** Their streams end in good order; those that are not read are cut. */
  disband(): void {
    for (const member of this.members) {
      if (member.isWaiting) member.socket.terminate();
      else member.write(streamEnd);
    }
    this.members.clear();
  }

  private sing(dueMs: number): void {
    clearTimeout(this.timer);
    if (this.members.size === 0) return;
    for (const member of this.members) if (!member.isWaiting) member.write(this.nextEvent());
    const nextMs = Math.max(
      dueMs + (this.members.size * 1000) / this.eventsPerSecond,
      performance.now(),
    );
    const again = (): void => this.sing(nextMs);
    if (this.eventsPerSecond === Infinity) setImmediate(again);
    else this.timer = setTimeout(again, Math.max(0, nextMs - performance.now()));
  }
}

const choirs = new Map<string, Choir>();
let latestTurn = 0;

function beginTurn(turn: number): void {
  if (turn <= latestTurn) return;
  latestTurn = turn;
  for (const choir of choirs.values()) choir.disband();
}

function* stream(first: Buffer, count: number): Generator<Buffer> {
  yield streamHead;
  for (let at = 0; at < count; at += 1) yield first;
  yield* lastEvents;
  yield lastChunk;
}

function answer(client: Client, model: string): void {
  const [kind, number = ""] = model.split("-");
  if (kind === "json") client.write(jsonAnswer);
  else if (kind === "stream") client.writeAll(stream(event, Number(number)));
  else if (kind === "bulk") client.writeAll(stream(bulkEvent, BULK_EVENTS));
  else if (kind === "silent") client.writeAll([streamHead, event].values());
  else if (kind === "paced" || kind === "timed" || kind === "flood") {
    client.write(streamHead);
    let choir = choirs.get(model);
    if (!choir) {
      const eventsPerSecond = kind === "flood" ? Infinity : Number(number);
      choir = new Choir(eventsPerSecond, kind === "timed" ? timedEvent : () => event);
      choirs.set(model, choir);
    }
    choir.join(client);
  } else {
    client.write(jsonOf({ error: { message: `no model ${model}` } }));
  }
}

function listen(tls: { cert: Buffer; key: Buffer } | undefined): TCPSocketListener<Client> {
  return Bun.listen<Client>({
    hostname: "127.0.0.1",
    port: 0,
    ...(tls && { tls }),
    socket: {
      open: (socket) => {
        socket.data = new Client(socket);
      },
      data: (socket, bytes) => socket.data.receive(bytes),
      drain: (socket) => socket.data.drained(),
      close: (socket) => {
        for (const choir of choirs.values()) choir.leave(socket.data);
      },
      error: () => {},
    },
  });
}

const [certificateFile = "", keyFile = ""] = process.argv.slice(2);
const secure = { cert: readFileSync(certificateFile), key: readFileSync(keyFile) };
// The parent process has ended.
process.on("disconnect", () => process.exit(0));
const ports = { port: listen(undefined).port, securePort: listen(secure).port };
await lengthenQueues();
process.send?.(ports);
