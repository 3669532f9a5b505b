import { closingQuote, skipSpace } from "./json.ts";

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * The text of a member's value in the JSON object that `text` is; undefined where it has none of that name, the last of
 * several. For what is too costly to be parsed: it keeps no names, never recurses, and takes time linear in the text.
 * Of what is no JSON it says anything.
 */
export function memberText(text: string, name: string): string | undefined {
  let found: string | undefined;
  let depth = 0;
  /** Where the value of the member stands, as long as its end is not found. */
  let start: number | undefined;
  const end = (at: number): void => {
    if (start !== undefined) found = text.slice(start, at);
    start = undefined;
  };
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const close = closingQuote(text, at);
        if (close < 0) return found;
        const next = skipSpace(text, close + 1);
        const isKey = depth === 1 && text.charCodeAt(next) === COLON;
        if (isKey && text.slice(at + 1, close) === name) start = next + 1;
        at = close;
        break;
      }
      case COMMA:
        if (depth === 1) end(at);
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        depth++;
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--;
        if (depth === 0) end(at);
    }
  }
  return found;
}
