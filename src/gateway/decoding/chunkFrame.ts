import type { Span } from "../../lib/span.ts";

/** What JSON escapes: quotes, backslashes, control characters; and what stands for bytes that are not UTF-8. */
const UNSOUND = /[^ !#-[\]-\ufffc]/;

/** A text that stands as it is in JSON, and in no chunk by chance. */
const PLACEHOLDER = "~ the place of the text ~";

/** Larger events are few, and a frame is kept as long as its stream. */
const FRAMED_EVENT_BYTES_MAX = 16_384;

/** So many frames in a row that fitted nothing: this provider puts something new around each text. */
const MISSES_MAX = 2;

/**
 * Most providers say the same around each text of a stream. An event that differs from one that was read in
 * its text alone need not be read: what goes to the client differs from that one's event in the text alone,
 * too. That saves the larger part of what an event costs.
 */
export class ChunkTemplates {
  #frame: Frame | undefined;
  #misses = 0;

  /** The client's event for a provider's one, with the bytes of its text; undefined where it must be read. */
  fill(event: Span): { shown: string; textBytes: number } | undefined {
    const filled = this.#frame && fill(this.#frame, event);
    if (filled) this.#misses = 0;
    return filled;
  }

  /**
   * Remembers what stands around the text of an event that was read: one whose only effect is that text.
   * `read` reads an event as that one was read, without any effect.
   */
  learn(event: Uint8Array, text: string, read: ReadEvent): void {
    if (this.#misses === MISSES_MAX || event.length > FRAMED_EVENT_BYTES_MAX) return;
    this.#misses += 1;
    this.#frame = frameOf(Buffer.from(event), text, read);
  }
}

/** The text of an event, and what the client would get of it. */
type ReadEvent = (event: Uint8Array) => { text: string; shown: string } | undefined;

/** What stands before and behind the text, in the provider's event and in the client's. */
interface Frame {
  readonly before: Buffer;
  readonly behind: Buffer;
  readonly shownBefore: string;
  readonly shownBehind: string;
}

/** Where the text stands is tried out with another one: only what comes out in its place was the text. */
function frameOf(event: Buffer, text: string, read: ReadEvent): Frame | undefined {
  const written = Buffer.from(JSON.stringify(text));
  const at = event.lastIndexOf(written);
  if (at < 0) return undefined;
  const before = event.subarray(0, at + 1);
  const behind = event.subarray(at + written.length - 1);
  const probed = read(Buffer.concat([before, Buffer.from(PLACEHOLDER), behind]));
  // Another field may happen to say the same as the text.
  if (probed?.text !== PLACEHOLDER) return undefined;
  const [shownBefore, shownBehind, ...more] = probed.shown.split(PLACEHOLDER);
  if (shownBefore === undefined || shownBehind === undefined || more.length > 0) return undefined;
  return { before, behind, shownBefore, shownBehind };
}

function fill(
  { before, behind, shownBefore, shownBehind }: Frame,
  { bytes, start, end }: Span,
): { shown: string; textBytes: number } | undefined {
  const textStart = start + before.length;
  const textEnd = end - behind.length;
  if (textEnd < textStart || before.compare(bytes, start, textStart) !== 0) return undefined;
  if (behind.compare(bytes, textEnd, end) !== 0) return undefined;
  const text = bytes.toString("utf8", textStart, textEnd);
  if (UNSOUND.test(text)) return undefined;
  return { shown: shownBefore + text + shownBehind, textBytes: textEnd - textStart };
}
