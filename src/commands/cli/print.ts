import { writeSync } from "node:fs";
import { errorCode } from "../../lib/systemError.ts";
import { jsonEscape, replaceUnprintable } from "../../lib/printable.ts";

/** What a command has to say, once for scripts and once for people. */
export interface Result {
  /** One JSON value; amounts in it are text already. */
  readonly document: unknown;
  /** Lines for people, ready to print: what comes from outside went through {@link visible}. */
  text(): string;
}

/** Prints the result as one JSON document or for people. */
export function printResult(result: Result, asJson: boolean): void {
  printText(asJson ? jsonText(result.document) : result.text());
}

const STDOUT = 1;
const FULL_PIPE_WAIT_MS = 1;

/**
 * Prints the text and ends its last line; all of it is written when this returns, so the process may end right
 * after. A reader that went away, as `head` does, wants no more. Throws CommandFailure where else it cannot be
 * written, which the console would keep to itself: a new key may have been in it.
 */
export function printText(text: string): void {
  let rest = Buffer.from(`${text.trimEnd()}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(STDOUT, rest));
    } catch (cause) {
      const code = errorCode(cause);
      if (code === "EPIPE") return;
      if (code !== "EAGAIN") throw unwritten(String(code), cause);
      Bun.sleepSync(FULL_PIPE_WAIT_MS);
    }
  }
}

function unwritten(code: string, cause: unknown): CommandFailure {
  return new CommandFailure(
    `the command succeeded, but its output could not be written (${code}): free disk space; if the output had a new key, create another with \`tollgate keys rotate\``,
    { cause },
  );
}

/** Prints one line on the error output, whatever the text holds. */
export function printError(text: string): void {
  console.error(`error: ${visible(text)}`);
}

/** Prints one line that needs no action now on the error output. */
export function printWarning(text: string): void {
  console.error(`warning: ${visible(text)}`);
}

/** Prints several lines on the error output, such as the help for a command that was not complete. */
export function printUsage(text: string): void {
  console.error(text.trimEnd());
}

/**
 * The text with everything that a terminal would obey or hide as an escape: control and format
 * characters, line ends, halves of surrogate pairs. It never has more than one line.
 */
export function visible(text: string): string {
  return replaceUnprintable(text, escaped);
}

/** Escaped beyond what JSON asks for: a terminal obeys some characters that JSON lets stand. */
function jsonText(document: unknown): string {
  // The line ends are those between the parts of the document: JSON itself escapes the others.
  return replaceUnprintable(JSON.stringify(document, null, 2), (character) =>
    character === "\n" ? character : jsonEscape(character),
  );
}

function escaped(character: string): string {
  switch (character) {
    case "\n":
      return "\\n";
    case "\r":
      return "\\r";
    case "\t":
      return "\\t";
    default:
      return jsonEscape(character);
  }
}

/** Why a command ends without success, in one line that says what to do next. `status` is that of the process. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  /** 1: it failed. 2: the command line itself is wrong. */
  readonly status: 1 | 2;

  constructor(message: string, options: ErrorOptions & { readonly status?: 1 | 2 } = {}) {
    super(message, options);
    this.status = options.status ?? 1;
  }
}
