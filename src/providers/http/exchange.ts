import type { Span } from "../../lib/span.ts";
import type { Connection, ConnectionOwner, Message } from "./connection.ts";
import { ConnectionError } from "./connectionError.ts";
import type { ConnectionPool } from "./connectionPool.ts";
import { ResponseDecoder } from "./responseDecoder.ts";
import { IncomingBody } from "./incomingBody.ts";

/**
 * Counts open requests. A client passes it to its replacement after a reload, and processes of one gateway may share it, so that
 * one limit holds for all.
 */
export interface OpenRequests {
  readonly count: number;
  begin(): void;
  end(): void;
}

/** Hears of the response to a request. Each method is called at most once. */
export interface ResponseListener {
  /** The head has arrived. Read the body to its end, `collect` it, or abort the exchange. */
  responded(): void;
  /** The body has more bytes than may be collected. The listener must abort the exchange. */
  exceeded(): void;
  /**
   * The exchange ended, failed or was aborted. Data that has arrived can still be read. Without a failure the response
   * is complete.
   */
  ended(failure: Error | undefined): void;
}

export interface HttpExchange {
  /** At least the beginning of the request was written. */
  readonly isSent: boolean;
  /** Undefined until the head has arrived. */
  readonly status: number | undefined;
  /** A header of the response by lower-case name. Several values of one name are joined by ", ". */
  header(name: string): string | undefined;
  /** Frees the memory of the headers, which are many with some providers. A stream may stay open for long. */
  dropHeaders(): void;
  /**
   * The next bytes of the body, 1 byte to 16 KiB; undefined at its end. The event loop runs between two parts of one
   * network read. Rejects with ConnectionError if the body is cut or its framing is broken, after all data before
   * that was read. One read at a time, and only after the head. Without a reader the gateway keeps little more than
   * 64 KiB and one network read, and then stops reading. The caller may keep the bytes.
   */
  read(): Promise<Uint8Array | undefined>;
  /**
   * While a read waits, each piece is offered to `taker` first. If it returns true, it took the piece and the read
   * waits on. This saves a promise for each piece of a long stream.
   */
  offerTo(taker: (piece: Span) => boolean): void;
  /** Keeps all bytes of the body for `takeAll`, up to `bytesMax`. Call it from `responded`. */
  collect(bytesMax: number): void;
  /** The bytes that have arrived and were not read. */
  takeAll(): Uint8Array;
  /**
   * Ends the exchange at once: the socket closes, and pending and later reads reject with the reason. Does nothing
   * after the end.
   */
  abort(reason: Error): void;
}

/** One request: its connection, its bytes, its response and one end. */
export class Exchange implements HttpExchange, ConnectionOwner {
  readonly #pool: ConnectionPool;
  readonly #open: OpenRequests;
  readonly #listener: ResponseListener;
  #request: Message = "";
  #connection: Connection | undefined;
  readonly #decoder = new ResponseDecoder();
  readonly #body = new IncomingBody();
  #collectedBytesMax = Infinity;
  #hasHead = false;
  #hasWritten = false;
  #hasReceived = false;
  #isOver = false;

  /** `open` counts this exchange until its end. */
  constructor(pool: ConnectionPool, open: OpenRequests, listener: ResponseListener) {
    this.#pool = pool;
    this.#open = open;
    this.#listener = listener;
    open.begin();
  }

  /** Sends `request`, which is head and body together. */
  start(request: Message): void {
    this.#request = request;
    this.#lease();
  }

  /** Ends the exchange instead of `start`. */
  refuse(failure: ConnectionError): void {
    this.#fail(failure);
  }

  get isSent(): boolean {
    return this.#hasWritten;
  }

  get status(): number | undefined {
    return this.#decoder.head?.status;
  }

  header(name: string): string | undefined {
    return this.#decoder.head?.header(name);
  }

  dropHeaders(): void {
    this.#decoder.head?.dropHeaders();
  }

  read(): Promise<Uint8Array | undefined> {
    return this.#body.read();
  }

  offerTo(taker: (piece: Span) => boolean): void {
    this.#body.offerTo(taker);
  }

  collect(bytesMax: number): void {
    this.#collectedBytesMax = bytesMax;
    const bytes = Number(this.header("content-length") ?? 0);
    this.#body.collect(bytes <= bytesMax ? bytes : 0);
  }

  takeAll(): Uint8Array {
    return this.#body.takeAll();
  }

  abort(reason: Error): void {
    if (!this.#isOver) {
      this.#body.drop();
      this.#fail(reason);
    }
  }

  opened(connection: Connection): void {
    this.#hasWritten = true;
    connection.write(this.#request);
  }

  received(connection: Connection, bytes: Buffer): void {
    if (!this.#hasWritten) {
      // An answer before the request is not the answer to it.
      this.#pool.distrust(connection);
      this.#lease();
      return;
    }
    if (!this.#hasReceived) {
      this.#hasReceived = true;
      // The request is not sent again, and a stream may stay open for long.
      this.#request = "";
    }
    const piece = this.#decoder.push(bytes);
    if (!this.#hasHead && this.#decoder.head !== undefined) {
      this.#hasHead = true;
      this.#body.open(connection);
      this.#listener.responded();
    }
    if (piece.end > piece.start && !this.#isOver) {
      this.#body.push(piece);
      if (this.#body.bufferedBytes > this.#collectedBytesMax) this.#listener.exceeded();
    }
    // The listener or the taker of a piece may have ended the exchange.
    if (this.#isOver) return;
    if (this.#decoder.violation !== undefined) {
      this.#fail(new ConnectionError("protocol", this.#decoder.violation));
    } else if (this.#decoder.hasEnded) {
      this.#finish(connection);
    } else if (this.#body.isFull) {
      connection.pause();
    }
  }

  closed(connection: Connection, failure: ConnectionError | undefined): void {
    if (!this.#hasWritten && connection.isReused) {
      this.#lease();
    } else if (connection.isReused && !this.#hasReceived) {
      // The provider closed an idle connection and did not read the request. One retry on a new connection, where
      // this cannot happen again.
      this.#hasWritten = false;
      this.#connection = this.#pool.dial(this);
    } else if (failure === undefined && this.#decoder.finish()) {
      this.#finish(connection);
    } else {
      this.#fail(
        failure ?? new ConnectionError("closed", "the connection closed before the response ended"),
      );
    }
  }

  #lease(): void {
    this.#connection = this.#pool.lease(this);
  }

  #finish(connection: Connection): void {
    this.#end();
    if (this.#decoder.isReusable && !connection.isSending) this.#pool.release(connection);
    else if (connection.isSending) connection.destroy();
    else connection.close();
    this.#body.end();
    this.#listener.ended(undefined);
  }

  #fail(failure: Error): void {
    this.#end();
    this.#connection?.destroy();
    this.#body.fail(failure);
    this.#listener.ended(failure);
  }

  #end(): void {
    this.#isOver = true;
    this.#open.end();
  }
}
