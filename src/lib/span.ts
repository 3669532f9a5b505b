/**
 * The bytes of a buffer from `start` up to `end`. The first view of what a socket gave costs a quarter of a
 * microsecond, more than all that most events need besides.
 */
export interface Span {
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
}

export function spanOf(view: Uint8Array): Span {
  const bytes = Buffer.isBuffer(view)
    ? view
    : Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  return { bytes, start: 0, end: bytes.length };
}

export function viewOf({ bytes, start, end }: Span): Uint8Array {
  return start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end);
}
