import type { Socket } from "bun";
import { until } from "./until.ts";

/** A client on a socket of its own: Bun's `fetch` runs 256 requests at once at most, in the whole process. */
export interface StreamClient {
  /** All that has come, head included. */
  readonly text: string;
  readonly isClosed: boolean;
  /** Resolves when the text holds this. */
  seen(part: string, timeoutMs?: number): Promise<void>;
  /** Goes away. */
  close(): void;
}

/** Posts a JSON body to the path of a gateway. */
export async function postRaw(
  url: string,
  path: string,
  key: string,
  body: object,
): Promise<StreamClient> {
  const { hostname, port } = new URL(url);
  const text = JSON.stringify(body);
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: ${hostname}:${port}`,
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(text)}`,
  ];
  const decoder = new TextDecoder();
  let received = "";
  let isClosed = false;
  const socket: Socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_, bytes) => {
        received += decoder.decode(bytes, { stream: true });
      },
      close: () => {
        isClosed = true;
      },
      error: () => {},
    },
  });
  socket.write(`${head.join("\r\n")}\r\n\r\n${text}`);
  return {
    get text() {
      return received;
    },
    get isClosed() {
      return isClosed;
    },
    seen: (part, timeoutMs) =>
      until(`the client sees ${part}`, () => received.includes(part), timeoutMs),
    close: () => socket.end(),
  };
}
