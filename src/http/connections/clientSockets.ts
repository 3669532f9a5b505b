import { canonicalIp } from "../../config/address.ts";
import { openLibc } from "../../lib/libc.ts";
import { descriptorsMax, openDescriptors } from "../../lib/systemError.ts";

/** One connection of a client over TCP. */
export interface ClientSocket {
  readonly descriptor: number;
  /** Address and port of the client: see `peerName`. */
  readonly peer: string;
  readonly address: string;
  /** The client has not read all that was sent to it. */
  readonly isSending: boolean;
  /** The client has sent bytes that this process has not read yet. */
  readonly isReceiving: boolean;
  /** The time since bytes came or left. */
  readonly idleMs: number;
}

/** The connections that this process has accepted. */
export interface ClientSockets {
  /**
   * The connections to one of its listening ports. `used`: how many descriptors the process has. The list needs no
   * further one.
   */
  list(ports: ReadonlySet<number>, used: number): readonly ClientSocket[];
  /** Shuts a connection down. The server then sees its end, and closes it. */
  shutDown(socket: ClientSocket): void;
  /** The sockets of this process that listen at these ports. */
  listeners(ports: ReadonlySet<number>, used: number): readonly Listening[];
  /** Lets this number of clients wait to be accepted, at each listening socket of this process. */
  lengthenQueues(length: number, used: number): void;
}

export interface Listening {
  /**
   * From now on the system drops requests for new connections, and serves those that are connected. A client asks
   * again after a second, and reaches whichever process listens then.
   */
  holdBack(): void;
  /** Whether a client is connected and waits to be accepted. */
  hasWaiting(): boolean;
}

/** The system's own limit is 4,096 too, unless somebody has changed `net.core.somaxconn`. */
const QUEUE_LENGTH = 4096;

/**
 * Lets 4,096 clients wait to be accepted, at each socket at which this process listens. Bun 1.4.5 lets 512 wait and has no
 * option for it: of a thousand clients that connect at once, the others would be heard a second later. Listening again
 * changes only this length: https://man7.org/linux/man-pages/man2/listen.2.html
 */
export async function lengthenQueues(): Promise<void> {
  const most = descriptorsMax();
  const sockets = most === undefined ? undefined : await openClientSockets(most);
  if (most !== undefined) sockets?.lengthenQueues(QUEUE_LENGTH, openDescriptors() ?? most);
}

/** Names a connection of a client. */
export function peerName(address: string, port: number): string {
  return `${canonicalIp(address) ?? address} ${port}`;
}

const AF_INET = 2;
const AF_INET6 = 10;
const SHUT_RDWR = 2;
const F_GETFD = 1;
const SOL_SOCKET = 1;
const SO_ATTACH_FILTER = 26;
const SO_ACCEPTCONN = 30;
const IPPROTO_TCP = 6;
const TCP_INFO = 11;
/**
 * The offset of `tcpi_unacked` in `tcp_info`. For a listening socket it counts the connections that wait to be
 * accepted.
 */
const WAITING = 24;
/** The offsets of `tcpi_last_data_sent` and `tcpi_last_data_recv` in `tcp_info`. */
const LAST_SENT = 44;
const LAST_RECEIVED = 52;
/** The part of `tcp_info` that is read. */
const INFO_BYTES = 56;
/** Asks for the bytes that the other side has not received yet. */
const SIOCOUTQ = 0x5411;
/** Asks for the bytes that this process has not read yet. */
const SIOCINQ = 0x541b;
/**
 * A filter of the system (classic BPF: code, jumps, value) that drops packets with SYN and without ACK: requests for a new
 * connection. The flags are in byte 13 of TCP's header. https://www.kernel.org/doc/html/latest/networking/filter.html
 */
const NO_NEW_CONNECTIONS = [
  { code: 0x30, value: 13 }, // load the byte
  { code: 0x54, value: 0x12 }, // SYN and ACK of it
  { code: 0x15, else: 1, value: 0x02 }, // is it SYN alone?
  { code: 0x06, value: 0 }, // drop
  { code: 0x06, value: 0xffff_ffff }, // pass
] as const;
const FILTER_STEP_BYTES = 8;
/** The size of `sock_fprog`: the number of steps, and behind a gap a pointer to them. */
const FILTER_HEAD_BYTES = 16;
/** The size of `sockaddr_storage`. */
const ADDRESS_BYTES = 128;

/**
 * The sockets of this process on Linux; undefined on other systems. The system is asked, because Bun's server reports
 * neither a connection without a request nor its end, and cannot close a single one.
 */
export async function openClientSockets(
  descriptorsMax: number,
): Promise<ClientSockets | undefined> {
  const libc = await openLibc();
  if (libc === undefined) return undefined;
  const { fcntl, ioctl, getsockname, getpeername, getsockopt, setsockopt, listen, shutdown, ptr } =
    libc;
  const address = new DataView(new ArrayBuffer(ADDRESS_BYTES));
  const length = new Uint32Array(new ArrayBuffer(4));
  const read = (call: typeof getsockname, descriptor: number): SocketAddress | undefined => {
    length[0] = ADDRESS_BYTES;
    return call(descriptor, ptr(address.buffer), ptr(length.buffer)) === 0
      ? addressIn(address)
      : undefined;
  };
  const info = new DataView(new ArrayBuffer(INFO_BYTES));
  const filter = filterWithoutPointer();
  const readInfo = (descriptor: number): DataView => {
    length[0] = INFO_BYTES;
    getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, ptr(info.buffer), ptr(length.buffer));
    return info;
  };
  const idleMsOf = (descriptor: number): number => {
    const times = readInfo(descriptor);
    return Math.min(times.getUint32(LAST_SENT, true), times.getUint32(LAST_RECEIVED, true));
  };
  const hasBytes = (descriptor: number, request: number): boolean =>
    ioctl(descriptor, request, ptr(length.buffer)) === 0 && length[0] !== 0;
  const isListening = (descriptor: number): boolean => {
    length[0] = 4;
    info.setUint32(0, 0, true);
    getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, ptr(info.buffer), ptr(length.buffer));
    return info.getUint32(0, true) === 1;
  };
  /** The open descriptors. It stops once it has seen as many as are used. */
  function* openOnes(used: number): Generator<number> {
    for (
      let descriptor = 0, seen = 0;
      seen < used && descriptor < descriptorsMax;
      descriptor += 1
    ) {
      if (fcntl(descriptor, F_GETFD, 0) < 0) continue;
      seen += 1;
      yield descriptor;
    }
  }
  /** The open sockets whose own port is one of these. */
  function* at(ports: ReadonlySet<number>, used: number): Generator<number> {
    for (const descriptor of openOnes(used)) {
      const own = read(getsockname, descriptor);
      if (own !== undefined && ports.has(own.port)) yield descriptor;
    }
  }
  return {
    list(ports, used) {
      const sockets: ClientSocket[] = [];
      for (const descriptor of at(ports, used)) {
        const peer = read(getpeername, descriptor);
        if (peer === undefined) continue;
        const { host, port } = peer;
        sockets.push({
          descriptor,
          peer: peerName(host, port),
          address: canonicalIp(host) ?? host,
          isSending: hasBytes(descriptor, SIOCOUTQ),
          isReceiving: hasBytes(descriptor, SIOCINQ),
          idleMs: idleMsOf(descriptor),
        });
      }
      return sockets;
    },
    listeners(ports, used) {
      return [...at(ports, used)].filter(isListening).map((descriptor) => ({
        holdBack() {
          const at = ptr(filter.buffer);
          filter.setBigUint64(FILTER_HEAD_BYTES / 2, BigInt(at + FILTER_HEAD_BYTES), true);
          setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, at, FILTER_HEAD_BYTES);
        },
        hasWaiting: () => readInfo(descriptor).getUint32(WAITING, true) > 0,
      }));
    },
    lengthenQueues(most, used) {
      for (const descriptor of openOnes(used))
        if (isListening(descriptor)) listen(descriptor, most);
    },
    shutDown: ({ descriptor }) => void shutdown(descriptor, SHUT_RDWR),
  };
}

/** The filter: its head without the pointer, and its steps. */
function filterWithoutPointer(): DataView<ArrayBuffer> {
  const bytes = FILTER_HEAD_BYTES + NO_NEW_CONNECTIONS.length * FILTER_STEP_BYTES;
  const filter = new DataView(new ArrayBuffer(bytes));
  filter.setUint16(0, NO_NEW_CONNECTIONS.length, true);
  for (const [index, step] of NO_NEW_CONNECTIONS.entries()) {
    const at = FILTER_HEAD_BYTES + index * FILTER_STEP_BYTES;
    filter.setUint16(at, step.code, true);
    filter.setUint8(at + 3, "else" in step ? step.else : 0);
    filter.setUint32(at + 4, step.value, true);
  }
  return filter;
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
