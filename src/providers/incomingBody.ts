/** Bytes that a body keeps for a reader who does not come; with more the sender is made to wait. */
const BUFFERED_BYTES_MAX = 65_536;

/** What a body does to the connection that it comes from. */
export interface BodySource {
  resume(): void;
}

/** The body of a response between the network, which pushes, and its one reader, who pulls. */
export class IncomingBody {
  private readonly source: BodySource;
  private readonly pieces: Uint8Array[] = [];
  private bufferedBytes = 0;
  private reader: PromiseWithResolvers<Uint8Array | undefined> | undefined;
  private ended = false;
  private failure: Error | undefined;

  constructor(source: BodySource) {
    this.source = source;
  }

  get isFull(): boolean {
    return this.bufferedBytes >= BUFFERED_BYTES_MAX;
  }

  /** All that has arrived since the last read, else the next piece; undefined at the proper end. */
  read(): Promise<Uint8Array | undefined> {
    if (this.bufferedBytes > 0) {
      return Promise.resolve(this.takeAll());
    }
    if (this.failure !== undefined) {
      return Promise.reject(this.failure);
    }
    if (this.ended) {
      return Promise.resolve(undefined);
    }
    if (this.reader !== undefined) {
      return Promise.reject(new Error("the body is being read already"));
    }
    this.reader = Promise.withResolvers();
    return this.reader.promise;
  }

  push(piece: Uint8Array): void {
    if (this.reader === undefined) {
      this.pieces.push(piece);
      this.bufferedBytes += piece.length;
    } else {
      this.takeReader()?.resolve(piece);
    }
  }

  end(): void {
    this.ended = true;
    this.takeReader()?.resolve(undefined);
  }

  /** What has arrived can still be read; then reads reject. */
  fail(failure: Error): void {
    this.failure = failure;
    this.takeReader()?.reject(failure);
  }

  /** What nobody has read is let go. */
  drop(): void {
    this.pieces.length = 0;
    this.bufferedBytes = 0;
  }

  private takeReader(): PromiseWithResolvers<Uint8Array | undefined> | undefined {
    const reader = this.reader;
    this.reader = undefined;
    return reader;
  }

  private takeAll(): Uint8Array {
    const [first] = this.pieces;
    const all =
      first !== undefined && this.pieces.length === 1 ? first : Buffer.concat(this.pieces);
    this.drop();
    if (!this.ended) {
      // After the end the connection may be serving somebody else.
      this.source.resume();
    }
    return all;
  }
}
