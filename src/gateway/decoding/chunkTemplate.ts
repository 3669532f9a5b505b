import type { Span } from "../../lib/span.ts";

/** Characters that JSON escapes, and those that replace bytes that are not UTF-8. */
const NEEDS_ESCAPE = /[^ !#-[\]-\ufffc]/;

/** A text that JSON does not escape, and that is in no chunk by chance. */
const PLACEHOLDER = "~ placeholder of the text ~";

/** Larger events are rare, and a template stays in memory until the stream ends. */
const TEMPLATE_BYTES_MAX = 16_384;

/** After this many templates in a row that matched no event, no more are made. */
const MISSES_MAX = 2;

/**
 * Most events of a stream differ only in their text, and so do the events that the client gets. A template is what is
 * around the text, on both sides. An event that matches it is not parsed, which saves most of its cost.
 */
export class ChunkTemplates {
  #template: Template | undefined;
  #misses = 0;

  /** Returns the event for the client and the UTF-8 bytes of its text. Undefined if the event must be parsed. */
  match(event: Span): { clientEvent: string; textBytes: number } | undefined {
    const filled = this.#template && fillTemplate(this.#template, event);
    if (filled) this.#misses = 0;
    return filled;
  }

  /**
   * Makes a template from a parsed event whose only effect is its `text`. `read` must parse an event in the same way, and
   * must have no side effect.
   */
  learn(event: Uint8Array, text: string, read: ReadEvent): void {
    if (this.#misses === MISSES_MAX || event.length > TEMPLATE_BYTES_MAX) return;
    this.#misses += 1;
    this.#template = templateOf(Buffer.from(event), text, read);
  }
}

/** Returns the text of an event and the event for the client. */
type ReadEvent = (event: Uint8Array) => { text: string; clientEvent: string } | undefined;

/** What is before and after the text, in the event of the provider and in that for the client. */
interface Template {
  readonly before: Buffer;
  readonly after: Buffer;
  readonly clientBefore: string;
  readonly clientAfter: string;
}

/** Finds the text by parsing the event with a placeholder instead. Undefined if that does not find exactly one place. */
function templateOf(event: Buffer, text: string, read: ReadEvent): Template | undefined {
  const jsonText = Buffer.from(JSON.stringify(text));
  const at = event.lastIndexOf(jsonText);
  if (at < 0) return undefined;
  const before = event.subarray(0, at + 1);
  const after = event.subarray(at + jsonText.length - 1);
  const probe = read(Buffer.concat([before, Buffer.from(PLACEHOLDER), after]));
  // Another field may have the same value as the text.
  if (probe?.text !== PLACEHOLDER) return undefined;
  const [clientBefore, clientAfter, ...more] = probe.clientEvent.split(PLACEHOLDER);
  if (clientBefore === undefined || clientAfter === undefined || more.length > 0) return undefined;
  return { before, after, clientBefore, clientAfter };
}

function fillTemplate(
  { before, after, clientBefore, clientAfter }: Template,
  { bytes, start, end }: Span,
): { clientEvent: string; textBytes: number } | undefined {
  const textStart = start + before.length;
  const textEnd = end - after.length;
  if (textEnd < textStart || before.compare(bytes, start, textStart) !== 0) return undefined;
  if (after.compare(bytes, textEnd, end) !== 0) return undefined;
  const text = bytes.toString("utf8", textStart, textEnd);
  if (NEEDS_ESCAPE.test(text)) return undefined;
  return { clientEvent: clientBefore + text + clientAfter, textBytes: textEnd - textStart };
}
