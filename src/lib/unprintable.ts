/** Control and format characters, line ends, halves of surrogate pairs: a terminal obeys them or shows nothing. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Whether the text has a character that is not seen as itself. */
export function hasUnprintable(text: string): boolean {
  return text.search(UNPRINTABLE) >= 0;
}

/** The text with each such character replaced. */
export function replaceUnprintable(text: string, replace: (character: string) => string): string {
  return text.replace(UNPRINTABLE, replace);
}

/** A character escaped as in JSON, such as `\u001b`. Some are two UTF-16 units, and each is escaped. */
export function jsonEscape(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
