import { dlopen, ptr } from "bun:ffi";

/** https://man7.org/linux/man-pages/man2/socket.2.html, as on every architecture that Bun runs on under Linux. */
const AF_INET = 2;
const SOCK_STREAM = 1;
const addressBytes = 16;

/** A port on which connection attempts get no answer. */
export interface SilentPort {
  readonly port: number;
  stop(): void;
}

/**
 * A port of 127.0.0.1 whose queue of connections is full and stays so: Linux drops every further SYN, as a
 * firewall does that drops packets. Bun's own listeners accept at once, so libc is called directly.
 */
export async function openSilentPort(): Promise<SilentPort> {
  const { symbols } = dlopen("libc.so.6", {
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
    listen: { args: ["i32", "i32"], returns: "i32" },
    getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
    close: { args: ["i32"], returns: "i32" },
  });
  const address = new DataView(new ArrayBuffer(addressBytes));
  address.setUint16(0, AF_INET, true);
  address.setUint32(4, 0x7f_00_00_01);
  const length = new Uint32Array([addressBytes]);
  const socket = symbols.socket(AF_INET, SOCK_STREAM, 0);
  const results = [
    symbols.bind(socket, ptr(address.buffer), addressBytes),
    symbols.listen(socket, 0),
    symbols.getsockname(socket, ptr(address.buffer), ptr(length)),
  ];
  if (socket < 0 || results.some((result) => result !== 0))
    throw new Error("no socket was to be had");
  const port = address.getUint16(2);
  // A queue of length 0 holds one connection, which is never accepted.
  const queued = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } });
  return {
    port,
    stop() {
      queued.terminate();
      symbols.close(socket);
    },
  };
}
