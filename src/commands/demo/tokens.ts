// How the demo provider counts: a token is up to four characters of a word, with the white space before them.
const TOKEN = /\s*\S{1,4}|\s+$/gu;

/** Cuts a text into tokens. Put together again they are the text. */
export function splitTokens(text: string): string[] {
  return text.match(TOKEN) ?? [];
}

/** How many tokens a text has: for each word a quarter of its characters, rounded up. */
export function countTokens(text: string): number {
  return splitTokens(text).length;
}
