import { writeSync } from "node:fs";
import { errorCode } from "../../lib/systemError.ts";
import { jsonEscape, replaceUnprintable } from "../../lib/printable.ts";
import { visible } from "../../lib/terminal.ts";

/** The output of a command in both forms. */
export interface Result {
  /** For `--json`: one JSON value. Amounts in it are strings. */
  readonly document: unknown;
  /** Lines for people. Text from outside is escaped by {@link visible}. */
  text(): string;
}

/** Prints the result as one JSON document or as text. */
export function printResult(result: Result, asJson: boolean): void {
  printText(asJson ? jsonText(result.document) : result.text());
}

const STDOUT = 1;
const FULL_PIPE_WAIT_MS = 1;

/**
 * Writes the text and a line end to standard output before it returns. A closed pipe, such as that of `head`, is not an
 * error. Throws CommandFailure for other errors, because the lost output may contain a new key or code; console.log ignores them.
 */
export function printText(text: string): void {
  let rest = Buffer.from(`${text.trimEnd()}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(STDOUT, rest));
    } catch (cause) {
      const code = errorCode(cause);
      if (code === "EPIPE") return;
      if (code !== "EAGAIN") throw outputLost(String(code), cause);
      Bun.sleepSync(FULL_PIPE_WAIT_MS);
    }
  }
}

function outputLost(code: string, cause: unknown): CommandFailure {
  return new CommandFailure(
    `the command succeeded, but its output could not be written (${code}): free disk space; if the output had a new key, create another with \`tollgate keys rotate\`; if it had codes of vouchers, revoke these and create others`,
    { cause },
  );
}

/** Prints one line to standard error. */
export function printError(text: string): void {
  console.error(`error: ${visible(text)}`);
}

/** Prints one line to standard error, for a problem that does not stop the command. */
export function printWarning(text: string): void {
  console.error(`warning: ${visible(text)}`);
}

/** Prints one line to standard error, for what the command is doing while it takes long. */
export function printNotice(text: string): void {
  console.error(visible(text));
}

/** Prints several lines to standard error, such as the help after an incomplete command. */
export function printUsage(text: string): void {
  console.error(text.trimEnd());
}

/** JSON with more escapes than required, because a terminal interprets some characters that JSON allows. */
function jsonText(document: unknown): string {
  // JSON.stringify escapes line ends in strings, so these are the line ends between values.
  return replaceUnprintable(JSON.stringify(document, null, 2), (character) =>
    character === "\n" ? character : jsonEscape(character),
  );
}

/** A command has done its work, and its exit status is the answer for a script. Nothing more is printed. */
export class CommandAnswer extends Error {
  override readonly name = "CommandAnswer";
  readonly status = 3;
}

/** The failure of a command. The message is one line and says what to do. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  /** The exit status. 1: the command failed. 2: the command line is wrong. */
  readonly status: 1 | 2;

  constructor(message: string, options: ErrorOptions & { readonly status?: 1 | 2 } = {}) {
    super(message, options);
    this.status = options.status ?? 1;
  }
}
