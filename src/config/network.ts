import { canonicalIp } from "./address.ts";

/** All addresses of one family whose first `prefix` bits are those of `bytes`. A single address is a network too. */
export interface Network {
  /** The first address: 4 bytes of IPv4, or 16 of IPv6. */
  readonly bytes: readonly number[];
  readonly prefix: number;
}

/** The bits of an IPv6 address that one network has: https://www.rfc-editor.org/rfc/rfc4291#section-2.5.4 */
const CLIENT_BITS = 64;
/** The bits before the IPv4 address in an IPv4-mapped IPv6 address. */
const MAPPED_BITS = 96;

/**
 * `"10.0.0.5"`, `"10.0.0.0/8"` or `"fd00::/8"`. An IPv4-mapped IPv6 network is one of IPv4. Undefined for any other text, and
 * for an address that is not the first one of its network: `firstOf` gives that.
 */
export function parseNetwork(text: string): Network | undefined {
  const written = parseWritten(text);
  return written !== undefined && isFirst(written) ? written : undefined;
}

/** The network in which an address with a prefix is, such as `"10.0.0.0/8"` for `"10.0.0.5/8"`; undefined for other text. */
export function networkAround(text: string): string | undefined {
  const written = parseWritten(text);
  return written && textOf(written.bytes, written.prefix);
}

/** `address` is in its shortest form. No network of IPv6 has an IPv4 address. */
export function isInNetworks(address: string, networks: readonly Network[]): boolean {
  if (networks.length === 0) return false;
  const bytes = bytesOf(address);
  return networks.some(
    (network) =>
      bytes.length === network.bytes.length &&
      firstOf(bytes, network.prefix).every((byte, at) => byte === network.bytes[at]),
  );
}

/**
 * The network by which a client is counted: the address of IPv4, or the /64 network of IPv6, because one client may
 * use all addresses of it.
 */
export function networkOfClient(address: string): string {
  return address.includes(":") ? textOf(bytesOf(address), CLIENT_BITS) : address;
}

/** An address with its prefix; its bits after the prefix may be set. */
function parseWritten(text: string): Network | undefined {
  const [, written = "", digits] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  const address = canonicalIp(written);
  if (address === undefined) return undefined;
  const bytes = bytesOf(address);
  const bits = bytes.length * 8;
  const isMapped = bits === 32 && written.includes(":");
  const prefix = digits === undefined ? bits : Number(digits) - (isMapped ? MAPPED_BITS : 0);
  return prefix >= 0 && prefix <= bits ? { bytes, prefix } : undefined;
}

function isFirst({ bytes, prefix }: Network): boolean {
  return firstOf(bytes, prefix).every((byte, at) => byte === bytes[at]);
}

/** The first address of the network in which the address is. */
function firstOf(bytes: readonly number[], prefix: number): readonly number[] {
  return bytes.map((byte, at) => {
    const kept = Math.min(8, Math.max(0, prefix - at * 8));
    return byte & (0xff00 >> kept) & 0xff;
  });
}

/** The bytes of an address in its shortest form. */
function bytesOf(address: string): readonly number[] {
  if (!address.includes(":")) return address.split(".").map(Number);
  const [head = "", tail = ""] = address.split("::");
  const [before, after] = [groupsOf(head), groupsOf(tail)];
  const zeros = Array<number>(8 - before.length - after.length).fill(0);
  return [...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 0xff]);
}

function groupsOf(text: string): readonly number[] {
  return text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
}

function textOf(bytes: readonly number[], prefix: number): string {
  const first = firstOf(bytes, prefix);
  if (first.length === 4) return `${first.join(".")}/${prefix}`;
  const hex = first.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${canonicalIp(hex.replace(/(?<=.)(?=(?:.{4})+$)/g, ":"))}/${prefix}`;
}
