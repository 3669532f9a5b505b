/** One answer as it came, whole. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

/** A complete status line: https://www.rfc-editor.org/rfc/rfc9112#section-4 */
const statusLine = /^HTTP\/1\.1 (\d{3}) [\t\x20-\x7e]*$/;
const headerLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): *([\t\x20-\x7e\x80-\xff]*)$/;
const chunkLine = /^[0-9A-Fa-f]{1,8}$/;

/**
 * Reads the answers on one connection, and accepts strict HTTP/1.1 only: lenient readers differ from each
 * other. `isHead` says by an answer's index whether it is to a HEAD.
 */
export class JsonAnswerReader {
  readonly #isHead: (index: number) => boolean;
  #unread = Buffer.alloc(0);
  #count = 0;

  constructor(isHead: (index: number) => boolean) {
    this.#isHead = isHead;
  }

  /** No byte of a next answer has arrived. */
  get isBetween(): boolean {
    return this.#unread.length === 0;
  }

  /** The bytes so far of the next answer. */
  get unread(): Buffer {
    return this.#unread;
  }

  /** The answers that became whole. Throws for bytes that are no answer. */
  read(bytes: Buffer): RawAnswer[] {
    this.#unread = Buffer.concat([this.#unread, bytes]);
    return this.#takeAll(false);
  }

  /** The same at the end of the connection, which may end an answer; an incomplete one stays unread. */
  end(): RawAnswer[] {
    return this.#takeAll(true);
  }

  #takeAll(isEnd: boolean): RawAnswer[] {
    const answers: RawAnswer[] = [];
    for (let next = this.#take(isEnd); next !== undefined; next = this.#take(isEnd)) {
      if (next.status === 100) continue;
      this.#count += 1;
      answers.push(next);
    }
    return answers;
  }

  #take(isEnd: boolean): RawAnswer | undefined {
    const headEnd = this.#unread.indexOf("\r\n\r\n");
    if (headEnd < 0) return undefined;
    const { status, headers } = readHead(this.#unread.toString("latin1", 0, headEnd));
    const rest = this.#unread.subarray(headEnd + 4);
    const found =
      status === 100 || this.#isHead(this.#count) ? noBody : bodyOf(headers, rest, isEnd);
    if (found === undefined) return undefined;
    this.#unread = rest.subarray(found.length);
    return { status, headers, body: found.body };
  }
}

/** A body, and how many bytes of the connection it took. */
interface FoundBody {
  readonly body: Buffer;
  readonly length: number;
}

const noBody: FoundBody = { body: Buffer.alloc(0), length: 0 };

function readHead(head: string): { status: number; headers: Headers } {
  const [first = "", ...lines] = head.split("\r\n");
  const [, status] = statusLine.exec(first) ?? [];
  if (status === undefined) throw new Error(`no status line: ${JSON.stringify(first)}`);
  const headers = new Headers();
  for (const line of lines) {
    const [, name, value] = headerLine.exec(line) ?? [];
    if (name === undefined || value === undefined)
      throw new Error(`no header line: ${JSON.stringify(line)}`);
    if (headers.has(name)) throw new Error(`a header stands twice: ${name}`);
    headers.append(name, value);
  }
  return { status: Number(status), headers };
}

/** Undefined while it is not whole. */
function bodyOf(headers: Headers, rest: Buffer, isEnd: boolean): FoundBody | undefined {
  const coding = headers.get("transfer-encoding");
  const declared = headers.get("content-length");
  if (coding !== null && (declared !== null || coding !== "chunked"))
    throw new Error(`an odd framing: ${coding}, ${declared}`);
  if (coding !== null) return chunkedBody(rest);
  if (declared === null) return isEnd ? { body: rest, length: rest.length } : undefined;
  if (!/^\d+$/.test(declared)) throw new Error(`no length: ${declared}`);
  const length = Number(declared);
  return rest.length < length ? undefined : { body: rest.subarray(0, length), length };
}

function chunkedBody(rest: Buffer): FoundBody | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ;) {
    const lineEnd = rest.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const line = rest.toString("latin1", at, lineEnd);
    if (!chunkLine.test(line)) throw new Error(`no chunk size: ${JSON.stringify(line)}`);
    const start = lineEnd + 2;
    const end = start + Number.parseInt(line, 16);
    if (rest.length < end + 2) return undefined;
    if (rest.toString("latin1", end, end + 2) !== "\r\n") throw new Error("a chunk does not end");
    if (end === start) return { body: Buffer.concat(chunks), length: end + 2 };
    chunks.push(rest.subarray(start, end));
    at = end + 2;
  }
}
