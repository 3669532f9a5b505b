/**
 * What a proxy must know of PostgreSQL's protocol
 * (https://www.postgresql.org/docs/current/protocol-message-formats.html): a message is its type (1 byte), its length with
 * these 4 bytes, and its content. The first messages of a client have no type.
 */
const START_MESSAGE = 196_608;
const COMMIT = /^\s*(?:commit|end)\b/i;

interface Message {
  /** Empty for a message without a type. */
  readonly type: string;
  readonly content: Buffer;
}

/** Cuts a stream into messages. */
class Messages {
  #rest: Buffer = Buffer.alloc(0);
  /** The bytes of the type: 0 or 1. */
  typeBytes: 0 | 1;

  constructor(typeBytes: 0 | 1) {
    this.typeBytes = typeBytes;
  }

  add(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
  }

  /** The next message that is complete. */
  next(): Message | undefined {
    const start = this.typeBytes;
    if (this.#rest.length < start + 4) return undefined;
    const end = start + this.#rest.readUInt32BE(start);
    if (this.#rest.length < end) return undefined;
    const type = this.#rest.toString("latin1", 0, start);
    const content = this.#rest.subarray(start + 4, end);
    this.#rest = this.#rest.subarray(end);
    return { type, content };
  }
}

/** Knows which bytes of a client ask for a COMMIT, as a simple query or as a prepared statement. */
export class ClientMessages {
  readonly #messages = new Messages(0);
  readonly #commitStatements = new Set<string>();
  readonly #commitPortals = new Set<string>();

  /** Whether these bytes complete a message that commits. */
  commits(bytes: Buffer): boolean {
    this.#messages.add(bytes);
    let found = false;
    for (let message = this.#messages.next(); message; message = this.#messages.next()) {
      if (message.type !== "") found = this.#isCommit(message) || found;
      else if (message.content.readUInt32BE(0) === START_MESSAGE) this.#messages.typeBytes = 1;
    }
    return found;
  }

  #isCommit({ type, content }: Message): boolean {
    const [first = "", second = ""] = content.toString("latin1").split("\0", 2);
    if (type === "P") mark(this.#commitStatements, first, COMMIT.test(second));
    if (type === "B") mark(this.#commitPortals, first, this.#commitStatements.has(second));
    if (type === "Q") return first.split(";").some((statement) => COMMIT.test(statement));
    return type === "E" && this.#commitPortals.has(first);
  }
}

/** Knows when a server has answered a COMMIT. Give it the bytes since the commit was sent. */
export class ServerMessages {
  readonly #messages = new Messages(1);

  /** Undefined: these bytes do not answer it yet. */
  outcome(bytes: Buffer): "committed" | "failed" | undefined {
    this.#messages.add(bytes);
    for (let message = this.#messages.next(); message; message = this.#messages.next()) {
      if (message.type === "C" && message.content.toString("latin1") === "COMMIT\0")
        return "committed";
      // A transaction that has failed answers ROLLBACK.
      if (message.type === "E" || (message.type === "C" && message.content.includes("ROLLBACK")))
        return "failed";
    }
    return undefined;
  }
}

function mark(names: Set<string>, name: string, isIn: boolean): void {
  if (isIn) names.add(name);
  else names.delete(name);
}
