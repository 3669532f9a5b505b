import type { Span } from "../../lib/span.ts";
import type { Connection, ConnectionOwner, Message } from "./connection.ts";
import { ConnectionError } from "./connectionError.ts";
import type { ConnectionPool } from "./connectionPool.ts";
import { ResponseDecoder, type ResponseHead } from "./responseDecoder.ts";
import { IncomingBody } from "./incomingBody.ts";

/** A response whose head has arrived. Its body must be read to the end, or the exchange aborted. */
export interface HttpResponse {
  readonly status: number;
  /** The value of a header, by its lower-case name; several of one name are joined by ", ". */
  header(name: string): string | undefined;
  /**
   * The next bytes of the body, at most 16 KiB and never none; undefined at its proper end. Between two
   * parts of one network read the event loop turns. Rejects with ConnectionError when the body is cut or
   * breaks its framing, after all that came before has been read. One read at a time. While nobody reads,
   * little more than 64 KiB and one network read is kept, and the provider has to wait. The bytes are the
   * caller's to keep.
   */
  read(): Promise<Uint8Array | undefined>;
  /**
   * What comes while a read waits is offered to `taker` at once: where it says true it has taken the piece, and the
   * read waits on. That saves a promise for each piece of a long stream.
   */
  offerTo(taker: (piece: Span) => boolean): void;
}

/** One request and its response. */
export interface HttpExchange {
  /** Settles with the head of the response; rejects with ConnectionError. */
  readonly response: Promise<HttpResponse>;
  /** The request was written, at least its beginning, on a connection to the provider. */
  readonly isSent: boolean;
  /**
   * Ends the exchange at once wherever it is: the socket is closed, pending promises and later reads
   * reject with the reason. Does nothing after the proper end, or a second time.
   */
  abort(reason: Error): void;
}

/** The life of one request: a connection, the bytes out, the response in, and one end. */
export class Exchange implements HttpExchange, ConnectionOwner {
  readonly response: Promise<HttpResponse>;
  readonly #pool: ConnectionPool;
  readonly #onEnd: () => void;
  #request: Message;
  readonly #arrival: PromiseWithResolvers<HttpResponse>;
  #connection: Connection | undefined;
  #decoder = new ResponseDecoder();
  #body: IncomingBody | undefined;
  #hasWritten = false;
  #hasReceived = false;
  #isOver = false;

  /** `request` is the whole of it, head and body; `onEnd` is called once, however the exchange ends. */
  constructor(pool: ConnectionPool, request: Message, onEnd: () => void) {
    this.#pool = pool;
    this.#request = request;
    this.#onEnd = onEnd;
    this.#arrival = Promise.withResolvers();
    this.response = this.#arrival.promise;
  }

  /**
   * Leases a connection: after construction, and again where the one leased turned out to be of no use before anything
   * was written.
   */
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
      // An answer before the question: it was meant for somebody else, or for nobody.
      this.#pool.distrust(connection);
      this.start();
      return;
    }
    if (!this.#hasReceived) {
      this.#hasReceived = true;
      // It will not be sent again, and a stream may stay open for long.
      this.#request = "";
    }
    const piece = this.#decoder.push(bytes);
    if (this.#body === undefined && this.#decoder.head !== undefined) {
      this.#body = new IncomingBody(connection);
      this.#arrival.resolve(arrived(this.#decoder.head, this.#body));
    }
    if (piece.end > piece.start) {
      this.#body?.push(piece);
      if (this.#isOver) {
        // Whoever took the piece has ended the exchange.
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
      // The provider closed an idle connection while the request was on its way: it has not seen it.
      // It is sent again on a fresh connection, where the same cannot happen: so only this once.
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
      // Whoever aborts need not be waiting for the response as well.
      this.response.catch(() => {});
      this.#arrival.reject(failure);
    } else {
      this.#body.fail(failure);
    }
  }
}

function arrived({ status, headers }: ResponseHead, body: IncomingBody): HttpResponse {
  return {
    status,
    header: (name) => headers.get(name),
    read: () => body.read(),
    offerTo: (taker) => body.offerTo(taker),
  };
}
