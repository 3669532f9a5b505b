import { expect, test } from "bun:test";
import {
  openClientSockets,
  peerName,
  type ClientSocket,
} from "../../../src/http/connections/clientSockets.ts";
import { ConnectionWatch } from "../../../src/http/connections/connectionWatch.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { connectRaw } from "../../support/gateway/rawClient.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore({
  limits: { connections_per_address: 3, trusted_proxies: ["10.0.0.0/8"] },
});

/** Five connections of a client; the fourth is idle for longest. */
const fiveOf = (address: string): readonly ClientSocket[] =>
  [30, 10, 20, 90, 0].map((idleMs, index) => ({
    descriptor: index,
    address,
    peer: peerName(address, 1000 + index),
    idleMs,
    isSending: false,
    isReceiving: false,
  }));

/** The ports of the connections that one look closes. `descriptors`: how many the process may have. */
function closedOf(
  sockets: readonly ClientSocket[],
  { descriptors = 1_000_000, busy = [] as readonly string[] } = {},
): readonly string[] {
  const closed: string[] = [];
  const inFlight = new Set(busy.map((peer) => ({ peer })));
  const app = { ...at.gateway.app, requests: { ...at.gateway.app.requests, inFlight } };
  const seen = {
    list: () => sockets,
    shutDown: ({ peer }: ClientSocket) => void closed.push(peer),
  };
  new ConnectionWatch(app, seen, new Set([1]), descriptors).look();
  return closed;
}

test.each<[string, string, readonly number[]]>([
  ["an address", "203.0.113.5", [1003, 1000]],
  ["an address of IPv6", "2001:db8::5", [1003, 1000]],
  ["a trusted proxy", "10.1.2.3", []],
  ["this machine", "127.0.0.1", []],
])("of %s the connections above the limit are closed, longest idle first", (_, address, ports) => {
  const closed = closedOf(fiveOf(address));
  expect(closed).toEqual(ports.map((port) => peerName(address, port)));
});

test("addresses of one /64 network of IPv6 count together", () => {
  const [one, other] = [fiveOf("2001:db8::5").slice(0, 2), fiveOf("2001:db8::6").slice(0, 2)];
  expect(closedOf([...one, ...other])).toEqual([peerName("2001:db8::5", 1000)]);
  expect(closedOf([...one, ...fiveOf("2001:db8:0:1::6").slice(0, 2)])).toEqual([]);
});

test.each([{ isSending: true }, { isReceiving: true }])(
  "a connection with a request in flight or with unread bytes is not closed: %j",
  (unread) => {
    const address = "203.0.113.5";
    const [first, ...others] = fiveOf(address);
    const sockets = first ? [{ ...first, ...unread }, ...others] : others;
    const busy = [peerName(address, 1003)];
    expect(closedOf(sockets, { busy })).toEqual([peerName(address, 1002), peerName(address, 1001)]);
  },
);

test("without free descriptors the clients with the most connections lose theirs first, a proxy too", () => {
  const few = fiveOf("203.0.113.5").slice(0, 2);
  const many = fiveOf("10.1.2.3");
  const closed = closedOf([...few, ...many], { descriptors: 8 });
  expect(closed.slice(0, 5).every((peer) => peer.startsWith("10.1.2.3 "))).toBe(true);
  expect(closed).toHaveLength(7);
});

test.skipIf(process.platform !== "linux")(
  "the sockets of this process are those of its clients",
  async () => {
    const sockets = await openClientSockets(100_000);
    const ports = new Set([at.gateway.port]);
    const client = await connectRaw(at.gateway.port);
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await client.response();
    const found = sockets?.list(ports, 100_000) ?? [];
    expect(found.map(({ address }) => address)).toContain("127.0.0.1");
    for (const socket of found) sockets?.shutDown(socket);
    await client.closed;
    await until("all are closed", () => sockets?.list(ports, 100_000).length === 0);
  },
);
