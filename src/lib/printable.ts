/** The flag of a region, such as England: a black flag, the region's code in tag characters and an end tag. */
const REGION_FLAG = String.raw`\u{1F3F4}[\u{E0030}-\u{E0039}\u{E0061}-\u{E007A}]{3,6}\u{E007F}`;

/** A zero-width joiner joins two emoji into one. https://www.unicode.org/reports/tr51/#Emoji_ZWJ_Sequences */
const EMOJI_JOINER = String.raw`(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}]\uFE0F?)\u200D(?=\p{Extended_Pictographic})`;

/** The scripts whose spelling needs joiners and non-joiners: Arabic and Syriac, and those of South Asia. */
const JOINING_LETTER = `[${[
  "Arabic",
  "Syriac",
  "Devanagari",
  "Bengali",
  "Gurmukhi",
  "Gujarati",
  "Oriya",
  "Tamil",
  "Telugu",
  "Kannada",
  "Malayalam",
  "Sinhala",
]
  .map((script) => String.raw`\p{Script_Extensions=${script}}`)
  .join("")}]`;
const LETTER_JOINER = String.raw`(?<=${JOINING_LETTER})[\u200C\u200D](?=${JOINING_LETTER})`;

/**
 * Control and format characters, line separators and lone surrogates, which a terminal executes or hides. The first
 * group matches visible sequences that contain such characters.
 */
const UNPRINTABLE = new RegExp(
  String.raw`(${REGION_FLAG}|${EMOJI_JOINER}|${LETTER_JOINER})|[\p{C}\p{Zl}\p{Zp}]`,
  "gu",
);

/** Whether the text has a character that is not printable. */
export function hasUnprintable(text: string): boolean {
  for (const [, printable] of text.matchAll(UNPRINTABLE)) if (printable === undefined) return true;
  return false;
}

export function replaceUnprintable(text: string, replace: (character: string) => string): string {
  return text.replace(UNPRINTABLE, (found, printable?: string) => printable ?? replace(found));
}

/** A character escaped as in JSON, such as `\u001b`; two escapes for two UTF-16 units. */
export function jsonEscape(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
