import type { Span } from "../../lib/span.ts";
import type { Connection, ConnectionOwner, Message } from "./connection.ts";
import { ConnectionError } from "./connectionError.ts";
import type { ConnectionPool } from "./connectionPool.ts";
import { ResponseDecoder, type ResponseHead } from "./responseDecoder.ts";
import { IncomingBody } from "./incomingBody.ts";

/** A response whose head has arrived. Read the body to its end, or abort the exchange. */
export interface HttpResponse {
  readonly status: number;
  /** By lower-case name. Several values of one name are joined by ", ". */
  header(name: string): string | undefined;
  /**
   * The next bytes of the body, 1 byte to 16 KiB; undefined at its end. The event loop runs between two parts of one
   * network read. Rejects with ConnectionError if the body is cut or its framing is broken, after all data before
   * that was read. One read at a time. Without a reader the gateway keeps little more than 64 KiB and one network
   * read, and then stops reading. The caller may keep the bytes.
   */
  read(): Promise<Uint8Array | undefined>;
  /**
   * While a read waits, each piece is offered to `taker` first. If it returns true, it took the piece and the read
   * waits on. This saves a promise for each piece of a long stream.
   */
  offerTo(taker: (piece: Span) => boolean): void;
}

/** One request and its response. */
export interface HttpExchange {
  /** Settles with the head of the response; rejects with ConnectionError. */
  readonly response: Promise<HttpResponse>;
  /** At least the beginning of the request was written. */
  readonly isSent: boolean;
  /**
   * Ends the exchange at once: the socket closes, and pending promises and later reads reject with the reason. Does
   * nothing after the end.
   */
  abort(reason: Error): void;
}

/** One request: its connection, its bytes, its response and one end. */
export class Exchange implements HttpExchange, ConnectionOwner {
  readonly response: Promise<HttpResponse>;
  readonly #pool: ConnectionPool;
  readonly #onEnd: () => void;
  #request: Message;
  readonly #head: PromiseWithResolvers<HttpResponse>;
  #connection: Connection | undefined;
  #decoder = new ResponseDecoder();
  #body: IncomingBody | undefined;
  #hasWritten = false;
  #hasReceived = false;
  #isOver = false;

  /** `request` is head and body together. `onEnd` is called once, however the exchange ends. */
  constructor(pool: ConnectionPool, request: Message, onEnd: () => void) {
    this.#pool = pool;
    this.#request = request;
    this.#onEnd = onEnd;
    this.#head = Promise.withResolvers();
    this.response = this.#head.promise;
  }

  /** Leases a connection. Called again if the connection closed before anything was written. */
  start(): void {
    this.#connection = this.#pool.lease(this);
  }

  get isSent(): boolean {
    return this.#hasWritten;
  }

  abort(reason: Error): void {
    if (!this.#isOver) {
      this.#body?.drop();
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
      this.start();
      return;
    }
    if (!this.#hasReceived) {
      this.#hasReceived = true;
      // It is not sent again, and a stream may stay open for long.
      this.#request = "";
    }
    const piece = this.#decoder.push(bytes);
    if (this.#body === undefined && this.#decoder.head !== undefined) {
      this.#body = new IncomingBody(connection);
      this.#head.resolve(responseOf(this.#decoder.head, this.#body));
    }
    if (piece.end > piece.start) {
      this.#body?.push(piece);
      if (this.#isOver) {
        // The taker has ended the exchange.
        return;
      }
    }
    if (this.#decoder.violation !== undefined) {
      this.#fail(new ConnectionError("protocol", this.#decoder.violation));
    } else if (this.#decoder.hasEnded) {
      this.#finish(connection);
    } else if (this.#body?.isFull === true) {
      connection.pause();
    }
  }

  closed(connection: Connection, failure: ConnectionError | undefined): void {
    if (!this.#hasWritten && connection.isReused) {
      this.start();
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

  #finish(connection: Connection): void {
    this.#isOver = true;
    if (this.#decoder.isReusable && !connection.isSending) this.#pool.release(connection);
    else if (connection.isSending) connection.destroy();
    else connection.close();
    this.#onEnd();
    this.#body?.end();
  }

  #fail(failure: Error): void {
    this.#isOver = true;
    this.#connection?.destroy();
    this.#onEnd();
    if (this.#body === undefined) {
      // After an abort nobody may wait for the response.
      this.response.catch(() => {});
      this.#head.reject(failure);
    } else {
      this.#body.fail(failure);
    }
  }
}

function responseOf({ status, headers }: ResponseHead, body: IncomingBody): HttpResponse {
  return {
    status,
    header: (name) => headers.get(name),
    read: () => body.read(),
    offerTo: (taker) => body.offerTo(taker),
  };
}
