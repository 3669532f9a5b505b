// The provider that bench/upstreamClients.ts calls: raw TCP, so that it costs little and writes each event
// of a stream by itself. It prints its port and runs until it is killed.
//   POST /json       a JSON answer of about 1 KB
//   POST /stream/N   EVENTS events of 250 bytes; they start when N streams are open, or after START_MS_MAX
//   POST /hold       the head and one event of a stream, then silence
import type { Socket } from "bun";
import { EVENT_BYTES, EVENTS_PER_SECOND, EVENTS_PER_STREAM } from "./upstreamLoad.ts";

const JSON_BODY = JSON.stringify({ id: "chatcmpl-1", text: "x".repeat(980) });
const JSON_ANSWER = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${JSON_BODY.length}\r\n\r\n${JSON_BODY}`;
const STREAM_HEAD =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const EVENT = `data: ${"x".repeat(EVENT_BYTES - 8)}\n\n`;
const EVENT_CHUNK = `${EVENT_BYTES.toString(16)}\r\n${EVENT}\r\n`;
const LAST_CHUNK = "0\r\n\r\n";
const START_MS_MAX = 4000;

type Client = Socket<{ unread: string }>;
let waiting: Client[] = [];
let startTimer: ReturnType<typeof setTimeout> | undefined;

function start(): void {
  clearTimeout(startTimer);
  startTimer = undefined;
  const streams = waiting;
  waiting = [];
  let rounds = 0;
  const ticker = setInterval(
    () => {
      rounds += 1;
      const bytes = rounds > EVENTS_PER_STREAM ? LAST_CHUNK : EVENT_CHUNK;
      for (const stream of streams) {
        stream.write(bytes);
      }
      if (rounds > EVENTS_PER_STREAM) {
        clearInterval(ticker);
      }
    },
    (streams.length * 1000) / EVENTS_PER_SECOND,
  );
}

function answer(client: Client, path: string): void {
  if (path === "/json") {
    client.write(JSON_ANSWER);
    return;
  }
  client.write(STREAM_HEAD);
  if (path === "/hold") {
    client.write(EVENT_CHUNK);
    return;
  }
  waiting.push(client);
  startTimer ??= setTimeout(start, START_MS_MAX);
  if (waiting.length === Number(path.split("/")[2])) {
    start();
  }
}

const listener = Bun.listen<{ unread: string }>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    open: (client) => {
      client.data = { unread: "" };
    },
    data: (client, bytes) => {
      const text = client.data.unread + bytes.toString("latin1");
      const headEnd = text.indexOf("\r\n\r\n") + 4;
      const bodyBytes = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      // One request at a time: no client of this benchmark sends the next before its answer.
      const isWhole = headEnd >= 4 && text.length >= headEnd + bodyBytes;
      client.data.unread = isWhole ? "" : text;
      if (isWhole) {
        answer(client, text.split(" ", 2)[1] ?? "");
      }
    },
    error: () => {},
  },
});
process.stdout.write(`${listener.port}\n`);
