// A provider over TLS, for bench/providerTls.ts. It prints two ports.
//   the first    HTTP/1.1 and HTTP/2. `/THINK-MS` answers after so many milliseconds, `/stream` sends 50 events in a second
//   the second   HTTP/1.1. It answers each request and closes the connection 0 to 160 ms later, without having said so
import type { Socket } from "bun";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const EVENTS = 50;
const EVENT_EACH_MS = 20;
const CLOSES_WITHIN_MS = 160;

const certificates = resolve(import.meta.dir, "../../test/support/certificates");
const tls = {
  cert: readFileSync(`${certificates}/localhost.pem`, "utf8"),
  key: readFileSync(`${certificates}/server.key`, "utf8"),
};
const answer = JSON.stringify({ content: "An answer of some length. ".repeat(40) });
const event = `data: ${JSON.stringify({ content: "word ".repeat(45) })}\n\n`;

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  tls,
  http2: true,
  idleTimeout: 0,
  async fetch(request) {
    await request.arrayBuffer();
    const path = new URL(request.url).pathname.slice(1);
    if (path === "stream")
      return new Response(events(), { headers: { "content-type": "text/event-stream" } });
    await Bun.sleep(Number(path));
    return new Response(answer, { headers: { "content-type": "application/json" } });
  },
});

async function* events(): AsyncGenerator<string> {
  // Not all streams at the same moment, as with real ones.
  await Bun.sleep(Math.random() * EVENT_EACH_MS);
  for (let count = 0; count < EVENTS; count += 1) {
    yield event;
    await Bun.sleep(EVENT_EACH_MS);
  }
}

const closing = Bun.listen<{ received: string }>({
  hostname: "127.0.0.1",
  port: 0,
  tls,
  socket: {
    open(socket) {
      socket.data = { received: "" };
    },
    data(socket, bytes) {
      socket.data.received += bytes.toString("latin1");
      const headEnd = socket.data.received.indexOf("\r\n\r\n");
      const length = Number(/content-length: *(\d+)/i.exec(socket.data.received)?.[1] ?? 0);
      if (headEnd < 0 || socket.data.received.length < headEnd + 4 + length) return;
      socket.data.received = "";
      answerAndClose(socket);
    },
    error() {},
  },
});

function answerAndClose(socket: Socket<{ received: string }>): void {
  socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`);
  setTimeout(() => socket.end(), Math.random() * CLOSES_WITHIN_MS);
}

console.log(server.port);
console.log(closing.port);
