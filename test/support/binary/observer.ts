import { SQL, type Socket } from "bun";
import { Database } from "bun:sqlite";
import type { DatabasePlace } from "../auditor/databaseRows.ts";

/** A gateway in another process, and the database that it charges in. */
export interface Observed {
  readonly url: string;
  readonly key: string;
  readonly place: DatabasePlace;
}

export interface Observation {
  /** Answers whose end was seen, by the way in which they were asked. */
  readonly ends: Readonly<Record<string, number>>;
  /** Those whose charge the database did not have in that moment. */
  readonly early: readonly string[];
}

/** `end` is the first byte that no client may receive before the charge is committed. */
const ways = [
  { name: "chat", path: "/v1/chat/completions", stream: false, end: "\r\n\r\n{" },
  {
    name: "chat stream",
    path: "/v1/chat/completions",
    stream: true,
    end: '"finish_reason":"stop"',
  },
  { name: "responses", path: "/v1/responses", stream: false, end: "\r\n\r\n{" },
  {
    name: "responses stream",
    path: "/v1/responses",
    stream: true,
    end: "event: response.completed",
  },
] as const;

const words = "Tell me something about tolls.";
const clients = 8;
const idPattern = /\r\nx-request-id: (\S+)\r\n/i;

/**
 * Sends requests in all forms, several at once, and reads the database at the moment when the end of an answer
 * arrives, before anything else happens in this process. A server is asked in that moment.
 */
export async function observeCharges(observed: Observed, rounds: number): Promise<Observation> {
  await using charges = openCharges(observed.place);
  const ends: Record<string, number> = {};
  const early: string[] = [];
  const looks: Promise<void>[] = [];
  let asked = 0;
  const look = async (way: string, id: string): Promise<void> => {
    const isCharged = charges.has(id);
    ends[way] = (ends[way] ?? 0) + 1;
    if (!(await isCharged)) early.push(`${way} ${id}`);
  };
  const context = async (): Promise<void> => {
    const client = await connectObserver(observed, (way, id) => looks.push(look(way, id)));
    while (asked < rounds) {
      const way = ways[asked % ways.length] ?? ways[0];
      asked += 1;
      await client.ask(way);
    }
    client.close();
  };
  await Promise.all(Array.from({ length: clients }, context));
  await Promise.all(looks);
  return { ends, early };
}

/** The charges of a database. `has` reads a file at once, and asks a server at once. */
interface Charges extends AsyncDisposable {
  has(requestId: string): boolean | Promise<boolean>;
}

const chargeOf = (id: string): string =>
  `SELECT requests.id FROM requests JOIN accounts ON accounts.id = account_id
   WHERE public_id = ${id} AND requests.ledger_seq <= accounts.ledger_seq`;

function openCharges(place: DatabasePlace): Charges {
  if ("path" in place) {
    const file = new Database(place.path, { readonly: true });
    const charge = file.query<{ id: number }, [string]>(chargeOf("?"));
    return {
      has: (id) => charge.get(id) !== null,
      async [Symbol.asyncDispose]() {
        file.close();
      },
    };
  }
  const server = new SQL(place.url, { max: clients });
  return {
    has: async (id) => (await server.unsafe<unknown[]>(chargeOf("$1"), [id])).length > 0,
    [Symbol.asyncDispose]: () => server.close(),
  };
}

type Way = (typeof ways)[number];

/** One connection that is kept; `sees` is called with the first bytes of an answer's end. */
async function connectObserver(
  { url, key }: Observed,
  sees: (way: string, requestId: string) => void,
): Promise<{ ask(way: Way): Promise<void>; close(): void }> {
  let text = "";
  let hasSeen = false;
  let current: { way: Way; resolve(): void; reject(error: Error): void } | undefined;
  const received = (bytes: Buffer): void => {
    text += bytes.toString("latin1");
    if (!current) return;
    if (!hasSeen && text.includes(current.way.end)) {
      hasSeen = true;
      sees(current.way.name, idPattern.exec(text)?.[1] ?? "");
    }
    if (isWhole(text)) current.resolve();
  };
  const { hostname, port } = new URL(url);
  const socket: Socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_, bytes) => received(bytes),
      close: () => current?.reject(new Error(`the gateway closed the connection after: ${text}`)),
      error: () => {},
    },
  });
  return {
    async ask(way) {
      text = "";
      hasSeen = false;
      await new Promise<void>((resolve, reject) => {
        current = { way, resolve, reject };
        socket.write(requestText(way, key));
      });
      current = undefined;
      if (!text.startsWith("HTTP/1.1 200")) throw new Error(`not a whole answer: ${text}`);
    },
    close: () => socket.end(),
  };
}

function requestText({ path, stream }: Way, key: string): string {
  const prompt = path.endsWith("completions")
    ? { messages: [{ role: "user", content: words }] }
    : { input: words };
  const body = JSON.stringify({ model: "small", stream, ...prompt });
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: localhost",
    `Authorization: Bearer ${key}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

function isWhole(text: string): boolean {
  const headEnd = text.indexOf("\r\n\r\n") + 4;
  if (headEnd < 4) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1];
  return length === undefined
    ? text.endsWith("\r\n0\r\n\r\n")
    : text.length >= headEnd + Number(length);
}
