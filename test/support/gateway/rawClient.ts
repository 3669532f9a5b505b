import type { Socket } from "bun";
import { until } from "../until.ts";

/** A client that sends raw bytes. */
export interface RawClient {
  /** All bytes that `response` has not taken yet, one character per byte. */
  readonly text: string;
  readonly isClosed: boolean;
  /** Settles when either side has closed the connection. */
  readonly closed: Promise<void>;
  send(bytes: string | Uint8Array): void;
  /** Resolves when the text holds this. */
  seen(part: string): Promise<void>;
  /** The next response, complete by its content-length or by the close. */
  response(): Promise<RawResponse>;
  pause(): void;
  resume(): void;
  /** Closes in good order. */
  fin(): void;
  /** Closes with a TCP reset. */
  reset(): void;
}

export interface RawResponse {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Connects to 127.0.0.1. */
export async function connectRaw(port: number): Promise<RawClient> {
  let text = "";
  let isClosed = false;
  const closing = Promise.withResolvers<void>();
  const socket: Socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data: (_, bytes) => {
        text += bytes.toString("latin1");
      },
      close: () => {
        isClosed = true;
        closing.resolve();
      },
      error: () => {},
    },
  });
  const wholeResponse = (): number => {
    const headEnd = text.indexOf("\r\n\r\n") + 4;
    if (headEnd < 4) return -1;
    const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1];
    if (length === undefined) return isClosed ? text.length : -1;
    const end = headEnd + Number(length);
    return text.length >= end ? end : -1;
  };
  return {
    get text() {
      return text;
    },
    get isClosed() {
      return isClosed;
    },
    closed: closing.promise,
    send(bytes) {
      socket.write(bytes);
    },
    seen: (part) => until(`the client sees ${part}`, () => text.includes(part)),
    async response() {
      await until("a whole response", () => wholeResponse() >= 0 || isClosed);
      const end = Math.max(wholeResponse(), 0);
      const whole = text.slice(0, end);
      text = text.slice(end);
      const [head = "", body = ""] = whole.split(/\r\n\r\n(.*)/s);
      return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 0), head, body };
    },
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    fin: () => socket.end(),
    reset: () => socket.terminate(),
  };
}

/** The bytes of a chat request, with these additional header lines. */
export function chatBytes(key: string, body: string, lines = ""): string {
  return postBytes("/v1/chat/completions", key, body, lines);
}

/** The same for any path. */
export function postBytes(path: string, key: string, body: string, lines = ""): string {
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${lines}\r\n${body}`;
}
