import { viewOf, type Span } from "../../lib/span.ts";
import type { Connection } from "./connection.ts";

/** Bytes kept without a reader. With more the sender has to wait. */
const BUFFERED_BYTES_MAX = 65_536;

/**
 * The most bytes of one read. A network read can have 512 KiB with 50,000 events, whose reader would block all other
 * requests for a quarter of a second.
 */
const READ_BYTES_MAX = 16_384;

/** A shorter body comes in a few network reads. */
const BLOCK_BYTES_MIN = 1_048_576;

/** The body of a response: the network pushes, one reader pulls. */
export class IncomingBody {
  /** Bytes that have arrived and were not read. */
  bufferedBytes = 0;
  #source: Pick<Connection, "resume"> | undefined;
  readonly #pieces: Uint8Array[] = [];
  #isCollected = false;
  /** A long body whose length is known is collected in one block, so that it is not in memory twice. */
  #block: Buffer | undefined;
  #reader: PromiseWithResolvers<Uint8Array | undefined> | undefined;
  /** The last read left a part of its piece. */
  #hasRemainder = false;
  #taker: ((piece: Span) => boolean) | undefined;
  #hasEnded = false;
  #failure: Error | undefined;

  /** Reading resumes `source` after a pause. */
  open(source: Pick<Connection, "resume">): void {
    this.#source = source;
  }

  /** The buffer is full, so the sender has to wait. */
  get isFull(): boolean {
    return this.bufferedBytes >= BUFFERED_BYTES_MAX && !this.#isCollected;
  }

  /** Keeps all bytes for `takeAll`, so the sender never waits. `bytes` is the length of the body, if it is known. */
  collect(bytes = 0): void {
    this.#isCollected = true;
    if (bytes > BLOCK_BYTES_MIN) this.#block = Buffer.allocUnsafeSlow(bytes);
  }

  /** The bytes that have arrived and were not read. */
  takeAll(): Uint8Array {
    const all = this.#block?.subarray(0, this.bufferedBytes) ?? this.#joined();
    this.drop();
    return all;
  }

  #joined(): Uint8Array {
    const [first = new Uint8Array(), ...others] = this.#pieces;
    return others.length === 0 ? first : Buffer.concat(this.#pieces, this.bufferedBytes);
  }

  /** The next bytes, at most 16 KiB; undefined at the end. The event loop runs between two parts of one piece. */
  read(): Promise<Uint8Array | undefined> {
    if (this.#hasRemainder) return this.#readLater();
    if (this.bufferedBytes > 0) return Promise.resolve(this.#take());
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#hasEnded) return Promise.resolve(undefined);
    this.#reader = Promise.withResolvers();
    return this.#reader.promise;
  }

  async #readLater(): Promise<Uint8Array | undefined> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#hasRemainder = false;
    return this.read();
  }

  /** See HttpExchange. */
  offerTo(taker: (piece: Span) => boolean): void {
    this.#taker = taker;
  }

  push(piece: Span): void {
    const length = piece.end - piece.start;
    if (this.#reader !== undefined && length <= READ_BYTES_MAX && this.#taker?.(piece) === true) {
      return;
    }
    if (this.#block === undefined) this.#pieces.push(viewOf(piece));
    else piece.bytes.copy(this.#block, this.bufferedBytes, piece.start, piece.end);
    this.bufferedBytes += length;
    if (this.#reader !== undefined) this.#takeReader()?.resolve(this.#take());
  }

  end(): void {
    this.#hasEnded = true;
    this.#takeReader()?.resolve(undefined);
  }

  /** Data that has arrived can still be read; later reads reject. */
  fail(failure: Error): void {
    this.#failure = failure;
    this.#takeReader()?.reject(failure);
  }

  drop(): void {
    this.#pieces.length = 0;
    this.#block = undefined;
    this.bufferedBytes = 0;
  }

  #takeReader(): PromiseWithResolvers<Uint8Array | undefined> | undefined {
    const reader = this.#reader;
    this.#reader = undefined;
    return reader;
  }

  #take(): Uint8Array | undefined {
    const first = this.#pieces.shift();
    const taken = first?.subarray(0, READ_BYTES_MAX);
    if (first === undefined || taken === undefined) return undefined;
    this.#hasRemainder = first.length > taken.length;
    if (this.#hasRemainder) this.#pieces.unshift(first.subarray(taken.length));
    this.bufferedBytes -= taken.length;
    if (!this.#hasEnded && !this.isFull) {
      // After the end the connection may serve another exchange.
      this.#source?.resume();
    }
    return taken;
  }
}
