import { TomlError, parse } from "smol-toml";
import { ConfigError } from "./inspection.ts";

/** The parser's message for text without quotes. */
const MISSING_QUOTES = /^(?:illegal character in numeric literal|invalid value)\b/;
/** The parser's message for text after a value. */
const TEXT_AFTER_VALUE = /^each key-value declaration must be followed by an end-of-line/;
/** A line with a number such as `25,000`, `25 000` or `128k`. */
const FORMATTED_NUMBER = /^[^="'#]*=\s*[+-]?\d[\d._]*(?:,|\s\d|[kK]\b)/;

/**
 * Parses a file. Throws {@link ConfigError}. It keeps only the first line of the parser's message, and no cause: the other
 * lines quote the file, which may hold a secret.
 */
export function parseToml(file: string, text: string): unknown {
  try {
    return parse(text, { integersAsBigInt: true, maxDepth: 100 });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const what = (error.message.split("\n")[0] ?? "").replace(/^Invalid TOML document: /, "");
    const line = text.split("\n")[error.line - 1] ?? "";
    throw new ConfigError([
      `${file}: line ${error.line}, column ${error.column}: ${what}${adviceOn(what, line)}`,
    ]);
  }
}

function adviceOn(what: string, line: string): string {
  const isUnquoted = MISSING_QUOTES.test(what);
  if ((isUnquoted || TEXT_AFTER_VALUE.test(what)) && FORMATTED_NUMBER.test(line)) {
    return " (write a number with digits only, such as 25000)";
  }
  return isUnquoted ? " (write text in quotes)" : "";
}
