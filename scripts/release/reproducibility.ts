/** Bytes at which two builds differ. */
interface Difference {
  readonly fromByte: number;
  /** One more than the last byte. */
  readonly toByte: number;
}

/** Differences that are as near as this are told as one. */
const NEAR_BYTES = 64;
const TOLD_MAX = 5;
const SHOWN_BYTES = 60;

/** Says what differs between two builds of the same sources, in lines of text. Undefined when they are the same bytes. */
export function differenceOf(first: Uint8Array, second: Uint8Array): string | undefined {
  if (Buffer.compare(first, second) === 0) return undefined;
  const sizes =
    first.length === second.length ? [] : [`sizes: ${first.length} and ${second.length} bytes`];
  const found = differences(first, second);
  const told = found
    .slice(0, TOLD_MAX)
    .map(
      ({ fromByte, toByte }) =>
        `bytes ${fromByte} to ${toByte - 1}: ${shown(first, fromByte, toByte)} and ${shown(second, fromByte, toByte)}`,
    );
  const rest = found.length > TOLD_MAX ? [`and at ${found.length - TOLD_MAX} other places`] : [];
  return [...sizes, ...told, ...rest].join("\n");
}

function differences(first: Uint8Array, second: Uint8Array): readonly Difference[] {
  const found: { fromByte: number; toByte: number }[] = [];
  const end = Math.min(first.length, second.length);
  for (let at = 0; at < end; at += 1) {
    if (first[at] === second[at]) continue;
    const last = found.at(-1);
    if (last && at - last.toByte < NEAR_BYTES) last.toByte = at + 1;
    else found.push({ fromByte: at, toByte: at + 1 });
  }
  return found;
}

/** The bytes as text: what differs is often a path or a time. */
function shown(bytes: Uint8Array, fromByte: number, toByte: number): string {
  const part = bytes.subarray(fromByte, Math.min(toByte, fromByte + SHOWN_BYTES));
  return JSON.stringify(new TextDecoder("latin1").decode(part));
}
