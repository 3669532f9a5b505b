import type { Socket } from "bun";

/** When a client leaves, after it sent its request, and how: in good order or by a reset. */
export interface Leaving {
  readonly afterMs: number;
  readonly how: "fin" | "reset";
}

/** What a client saw of an answer. */
export interface TimedReply {
  /** 0: no answer began. */
  readonly status: number;
  /** `whole`: by its framing. `late`: the client waited too long. */
  readonly outcome: "whole" | "left" | "cut" | "late";
  readonly tookMs: number;
  /** The text that marks the end was seen. */
  readonly hasMark: boolean;
  /** The first characters of the body as they came over the wire. */
  readonly begun: string;
}

export interface TimedRequest {
  readonly port: number;
  readonly bytes: string | Uint8Array;
  /** A text that only an answer with its proper end has. */
  readonly mark?: string | undefined;
  /** A client without it stays to the end. */
  readonly leaving?: Leaving | undefined;
  readonly timeoutMs: number;
  /** An address of this machine's loopback network; 127.0.0.1 unless given. */
  readonly from?: string;
}

const BEGUN_CHARACTERS = 300;

/**
 * Sends one request on a connection of its own, and reads the answer until its end or until the client leaves. It keeps
 * none of the answer, so that hundreds can run at once. Never rejects.
 */
export async function sendTimed(request: TimedRequest): Promise<TimedReply> {
  const { port, leaving, timeoutMs, from, mark = "" } = request;
  const over = Promise.withResolvers<TimedReply["outcome"]>();
  const reader = new AnswerEnd(mark, () => over.resolve("whole"));
  const startedMs = performance.now();
  let unsent = Buffer.from(request.bytes);
  const send = (socket: Socket): void => {
    if (unsent.length > 0) unsent = unsent.subarray(Math.max(socket.write(unsent), 0));
  };
  let socket: Socket | undefined;
  const timer = setTimeout(
    () => over.resolve(leaving === undefined ? "late" : "left"),
    leaving?.afterMs ?? timeoutMs,
  );
  try {
    socket = await Bun.connect({
      hostname: "127.0.0.1",
      port,
      ...(from !== undefined && { localAddress: from }),
      socket: {
        open: send,
        drain: send,
        data: (_, bytes) => reader.read(bytes),
        close: () => over.resolve("cut"),
        error: () => {},
      },
    });
  } catch {
    over.resolve("cut");
  }
  const outcome = await over.promise;
  clearTimeout(timer);
  const tookMs = performance.now() - startedMs;
  if (leaving?.how === "fin") socket?.end();
  else socket?.terminate();
  const { status, hasMark, begun } = reader;
  return { status, outcome, tookMs, hasMark, begun };
}

/** Looks for the end of one answer in what comes. */
class AnswerEnd {
  status = 0;
  hasMark = false;
  begun = "";
  readonly #mark: string;
  readonly #whole: () => void;
  #head = "";
  /** The last characters, in which a mark may begin. */
  #tail = "";
  /** Of the body; undefined: it is chunked, and NaN before the head has come. */
  #bytesLeft: number | undefined = NaN;

  constructor(mark: string, whole: () => void) {
    this.#mark = mark;
    this.#whole = whole;
  }

  read(bytes: Buffer): void {
    let text = bytes.toString("latin1");
    if (Number.isNaN(this.#bytesLeft)) {
      this.#head += text;
      const headEnd = this.#head.indexOf("\r\n\r\n") + 4;
      if (headEnd < 4) return;
      text = this.#head.slice(headEnd);
      this.#readHead(this.#head.slice(0, headEnd));
    }
    this.#look(text);
    if (this.#bytesLeft !== undefined) this.#bytesLeft -= text.length;
    const isOver =
      this.#bytesLeft === undefined ? this.#tail.endsWith("\r\n0\r\n\r\n") : this.#bytesLeft <= 0;
    if (isOver) this.#whole();
  }

  #look(text: string): void {
    if (this.begun.length < BEGUN_CHARACTERS)
      this.begun = (this.begun + text).slice(0, BEGUN_CHARACTERS);
    const all = this.#tail + text;
    this.hasMark ||= all.includes(this.#mark);
    this.#tail = all.slice(-Math.max(this.#mark.length, 8));
  }

  #readHead(head: string): void {
    this.status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    this.#bytesLeft = length === undefined ? undefined : Number(length);
  }
}
