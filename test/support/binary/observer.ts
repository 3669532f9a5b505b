import { SQL, type Socket } from "bun";
import { Database } from "bun:sqlite";
import type { DatabasePlace } from "../auditor/databaseRows.ts";
import { oneModel } from "../gateway/gatewayConfig.ts";
import { requestFor } from "../world/asks.ts";
import { startLoadProvider } from "../provider/loadProvider.ts";
import { inWorld } from "../world/script.ts";
import { World } from "../world/world.ts";

interface ObserverSetup {
  readonly world: World;
  readonly key: string;
  readonly charges: Charges;
  readonly clients: ObservingClient[];
}

/** `end` is the first byte that no client may receive before the charge is committed. */
const ways = [
  { name: "chat", end: "\r\n\r\n{" },
  { name: "chat stream", end: '"finish_reason":"stop"' },
  { name: "responses", end: "\r\n\r\n{" },
  { name: "responses stream", end: "event: response.completed" },
] as const;

const words = "Tell me something about tolls.";
const clientsAtOnce = 8;
const idPattern = /\r\nx-request-id: (\S+)\r\n/i;

/** Each play reads the database at the moment when the end of its answer arrives, before anything else happens in this process. */
export const observer = inWorld<ObserverSetup>({
  name: "observer",
  proves: "of which another process finds the charge in the moment that their end arrives",
  unit: "answers",
  amounts: [400, 1000, 100_000],
  atOnce: clientsAtOnce,
  async open(seed) {
    const provider = startLoadProvider({ wordDelayMs: 0 });
    const sections = { database: { path: "tollgate.db", durability: "power" } };
    const config = oneModel(provider.url, sections);
    return await World.open({ seed, providers: [provider], config }, async ({ gateway }) => {
      const key = await gateway.key("alice", "1000000");
      return { key, charges: openCharges(gateway.place), clients: [] };
    });
  },
  async play({ world, key, charges, clients }, _, number) {
    const way = ways[number % ways.length] ?? ways[0];
    const client = clients.pop() ?? (await connectObserver(world.port, key));
    const look = async (id: string): Promise<void> => {
      const isCharged = charges.has(id);
      world.count(way.name);
      if (!(await isCharged))
        world.problems.push(`${way.name} ${id} was not charged when its end was seen`);
    };
    world.count("answers");
    const looks: Promise<void>[] = [];
    await client.ask(way, (id) => looks.push(look(id)));
    await Promise.all(looks);
    clients.push(client);
  },
  async leave({ clients }) {
    for (const client of clients.splice(0)) client.close();
  },
  async check({ charges }) {
    await charges[Symbol.asyncDispose]();
    return [];
  },
  least: (answers) => Object.fromEntries(ways.map(({ name }) => [name, answers / ways.length])),
});

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
  const server = new SQL(place.url, { max: clientsAtOnce });
  return {
    has: async (id) => (await server.unsafe<unknown[]>(chargeOf("$1"), [id])).length > 0,
    [Symbol.asyncDispose]: () => server.close(),
  };
}

type Way = (typeof ways)[number];

/** One connection that is kept. */
interface ObservingClient {
  /** `sees` is called with the id of the request at the first bytes of its answer's end. */
  ask(way: Way, sees: (requestId: string) => void): Promise<void>;
  close(): void;
}

async function connectObserver(port: number, key: string): Promise<ObservingClient> {
  let text = "";
  let sees: ((requestId: string) => void) | undefined;
  let current: { way: Way; resolve(): void; reject(error: Error): void } | undefined;
  const received = (bytes: Buffer): void => {
    text += bytes.toString("latin1");
    if (!current) return;
    if (text.includes(current.way.end)) {
      sees?.(idPattern.exec(text)?.[1] ?? "");
      sees = undefined;
    }
    if (isWhole(text)) current.resolve();
  };
  const socket: Socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data: (_, bytes) => received(bytes),
      close: () => current?.reject(new Error(`the gateway closed the connection after: ${text}`)),
      error: () => {},
    },
  });
  return {
    async ask(way, look) {
      text = "";
      sees = look;
      await new Promise<void>((resolve, reject) => {
        current = { way, resolve, reject };
        socket.write(requestFor(key, way.name, { model: "small", prompt: words }));
      });
      current = undefined;
      if (!text.startsWith("HTTP/1.1 200")) throw new Error(`not a whole answer: ${text}`);
    },
    close: () => socket.end(),
  };
}

function isWhole(text: string): boolean {
  const headEnd = text.indexOf("\r\n\r\n") + 4;
  if (headEnd < 4) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1];
  return length === undefined
    ? text.endsWith("\r\n0\r\n\r\n")
    : text.length >= headEnd + Number(length);
}
