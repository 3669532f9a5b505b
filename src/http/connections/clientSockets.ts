import type { FFIFunction, Library } from "bun:ffi";
import { canonicalIp } from "../../config/address.ts";

/** One connection of a client over TCP. */
export interface ClientSocket {
  readonly descriptor: number;
  /** Address and port of the client: see `peerName`. */
  readonly peer: string;
  readonly address: string;
  /** The client has not read all that was sent to it. */
  readonly isSending: boolean;
  /** Since bytes came or left. */
  readonly idleMs: number;
}

/** The connections that this process has accepted. */
export interface ClientSockets {
  /** Those to one of its listening ports. `used`: how many descriptors the process has. It needs no further one. */
  list(ports: ReadonlySet<number>, used: number): readonly ClientSocket[];
  /** Shuts a connection down. The server then sees its end, and closes it. */
  shutDown(socket: ClientSocket): void;
}

/** Names a connection of a client. */
export function peerName(address: string, port: number): string {
  return `${canonicalIp(address) ?? address} ${port}`;
}

/** The C library of glibc, and of musl by its architecture. */
const LIBRARIES = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"] as const;

const calls = {
  ioctl: { args: ["i32", "u64", "ptr"], returns: "i32" },
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  getpeername: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
  shutdown: { args: ["i32", "i32"], returns: "i32" },
} as const satisfies Record<string, FFIFunction>;

const AF_INET = 2;
const AF_INET6 = 10;
const SHUT_RDWR = 2;
const F_GETFD = 1;
const IPPROTO_TCP = 6;
const TCP_INFO = 11;
/** The places of `tcpi_last_data_sent` and `tcpi_last_data_recv` in `tcp_info`. */
const LAST_SENT = 44;
const LAST_RECEIVED = 52;
/** The part of `tcp_info` that is read. */
const INFO_BYTES = 56;
/** Asks for the bytes that the other side has not received yet. */
const SIOCOUTQ = 0x5411;
/** The size of `sockaddr_storage`. */
const ADDRESS_BYTES = 128;

/**
 * The sockets of this process on Linux; undefined on other systems. Bun's server tells neither of a connection before its
 * first request nor of its end, and closes no single one, so the system is asked.
 */
export async function openClientSockets(
  descriptorsMax: number,
): Promise<ClientSockets | undefined> {
  if (process.platform !== "linux") return undefined;
  const { dlopen, ptr } = await import("bun:ffi");
  const library = firstOf(LIBRARIES, (name) => dlopen(name, calls));
  if (library === undefined) return undefined;
  const { fcntl, ioctl, getsockname, getpeername, getsockopt, shutdown } = library.symbols;
  const address = new DataView(new ArrayBuffer(ADDRESS_BYTES));
  const length = new Uint32Array(new ArrayBuffer(4));
  const read = (call: typeof getsockname, descriptor: number): SocketAddress | undefined => {
    length[0] = ADDRESS_BYTES;
    return call(descriptor, ptr(address.buffer), ptr(length.buffer)) === 0
      ? addressIn(address)
      : undefined;
  };
  const info = new DataView(new ArrayBuffer(INFO_BYTES));
  const idleMsOf = (descriptor: number): number => {
    length[0] = INFO_BYTES;
    getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, ptr(info.buffer), ptr(length.buffer));
    return Math.min(info.getUint32(LAST_SENT, true), info.getUint32(LAST_RECEIVED, true));
  };
  return {
    list(ports, used) {
      const sockets: ClientSocket[] = [];
      for (
        let descriptor = 0, seen = 0;
        seen < used && descriptor < descriptorsMax;
        descriptor += 1
      ) {
        if (fcntl(descriptor, F_GETFD, 0) < 0) continue;
        seen += 1;
        const own = read(getsockname, descriptor);
        if (own === undefined || !ports.has(own.port)) continue;
        const peer = read(getpeername, descriptor);
        if (peer === undefined) continue;
        const { host, port } = peer;
        const isSending = ioctl(descriptor, SIOCOUTQ, ptr(length.buffer)) === 0 && length[0] !== 0;
        sockets.push({
          descriptor,
          peer: peerName(host, port),
          address: canonicalIp(host) ?? host,
          isSending,
          idleMs: idleMsOf(descriptor),
        });
      }
      return sockets;
    },
    shutDown: ({ descriptor }) => void shutdown(descriptor, SHUT_RDWR),
  };
}

interface SocketAddress {
  readonly host: string;
  readonly port: number;
}

/** Reads a `sockaddr`: the family in the order of the machine, the port and the address in that of the network. */
function addressIn(bytes: DataView): SocketAddress | undefined {
  const family = bytes.getUint16(0, true);
  const port = bytes.getUint16(2);
  if (family === AF_INET)
    return { port, host: [4, 5, 6, 7].map((at) => bytes.getUint8(at)).join(".") };
  if (family !== AF_INET6) return undefined;
  const groups = [8, 10, 12, 14, 16, 18, 20, 22].map((at) => bytes.getUint16(at).toString(16));
  return { port, host: groups.join(":") };
}

function firstOf(
  names: readonly string[],
  open: (name: string) => Library<typeof calls>,
): Library<typeof calls> | undefined {
  for (const name of names) {
    try {
      return open(name);
    } catch {
      // The next one may exist.
    }
  }
  return undefined;
}
