// A network with a round trip of 40 ms, for bench/providerTls.ts: bytes are held for 20 ms on each way. The system accepts a
// connection at once, so its first bytes are held for one round trip more, as long as the TCP handshake would take.
//
//   bun bench/providerTls/relay.ts ADDRESS PORT TARGET-PORT
//
// It prints its port, then "opened" and "closed" for each connection.
import { connect, createServer, type Socket } from "node:net";

const ONE_WAY_MS = 20;

const [address = "127.0.0.1", port, targetPort] = process.argv.slice(2);

/** Passes on what arrives, in order, `firstMs` later what comes first. */
function hold(from: Socket, to: Socket, firstMs: number): void {
  let readyMs = performance.now() + firstMs;
  const later = (act: () => void): void => {
    readyMs = Math.max(readyMs, performance.now() + ONE_WAY_MS);
    setTimeout(act, readyMs - performance.now());
  };
  from.on("data", (bytes) => later(() => to.write(bytes)));
  from.on("end", () => later(() => to.end()));
  from.on("close", () => later(() => to.destroy()));
  from.on("error", () => {});
}

const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  console.log("opened");
  client.once("close", () => console.log("closed"));
  const target = connect({ port: Number(targetPort), host: "127.0.0.1", noDelay: true });
  hold(client, target, 3 * ONE_WAY_MS);
  hold(target, client, 0);
});
server.listen({ port: Number(port), host: address, backlog: 4096 }, () => {
  const bound = server.address();
  console.log(typeof bound === "object" ? bound?.port : "");
});
