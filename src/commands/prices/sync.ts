import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { isatty } from "node:tty";
import { filePricesText } from "../../config/pricesFile.ts";
import { systemClock } from "../../lib/clock.ts";
import { fileErrorReason } from "../../lib/systemError.ts";
import {
  CommandAnswer,
  CommandFailure,
  printNotice,
  printResult,
  printWarning,
} from "../cli/print.ts";
import type { GlobalOptions } from "../cli/session.ts";
import { Sync, type SyncOptions } from "./proposal.ts";
import { readPart, readSource, STDIN } from "./source.ts";
import { syncResult } from "./syncReport.ts";

/**
 * Compares the prices of the config with those of the list, shows what differs, asks, and writes the file with prices. It
 * changes nothing if the config would not load with the new file. Rejects with CommandFailure, ConfigError, and with
 * CommandAnswer where some models were refused.
 */
export async function syncPrices(
  given: string | undefined,
  options: SyncOptions,
  { config: path, json }: GlobalOptions,
): Promise<void> {
  const source = await readSource(given);
  const second = options.second === undefined ? undefined : await readSource(options.second);
  const sync = new Sync({ path, options, source, second, nowMs: systemClock.epochMs() });
  const { models, entries, changed } = sync.proposed();
  const report = { models, file: sync.file, source, second, options, changed };
  const text = filePricesText(entries, sync.head());
  if (changed > 0) sync.check(text);
  // The table comes before the question, and a document says whether the file was written.
  if (!json) printResult(syncResult(report, false), false);
  const isStdinFree = !json && given !== undefined && given !== "-" && options.second !== "-";
  const problem = changed === 0 ? undefined : whyNotWritten(sync, changed, options, isStdinFree);
  const isWritten = changed > 0 && problem === undefined && sync.file !== undefined;
  if (isWritten) replaceFile(sync.file, text);
  if (json) printResult(syncResult(report, isWritten), true);
  if (problem !== undefined) throw new CommandFailure(problem);
  if (isWritten && !json) printNotice(`wrote ${sync.file}`);
  if (isWritten && sync.named !== sync.file)
    printNotice(`to use it: [pricing] file = ${JSON.stringify(sync.file)} in ${sync.config.file}`);
  const refused = models.filter(({ isRefused }) => isRefused).length;
  if (refused === 0) return;
  if (!json) printWarning(`${refused} models were refused and keep their prices: see above`);
  throw new CommandAnswer();
}

/** Asks, unless the command line has the answer. Undefined: write. */
function whyNotWritten(
  { file, config }: Sync,
  changed: number,
  { yes }: SyncOptions,
  isStdinFree: boolean,
): string | undefined {
  if (file === undefined)
    return `nothing was written, because the config names no file with prices: add [pricing] with file = "prices.toml" to ${config.file}, or name a file with --output`;
  if (yes === true) return undefined;
  if (!isStdinFree || !isatty(STDIN))
    return "nothing was written: there is no terminal to ask; --yes writes without a question";
  return isConfirmed(`write ${changed} changes to ${file}? [y/N]`)
    ? undefined
    : "nothing was written";
}

/** Waits for a line of the terminal. */
function isConfirmed(question: string): boolean {
  printNotice(question);
  let answer = "";
  while (!answer.includes("\n")) {
    const part = readPart(STDIN, 1);
    if (part.length === 0) break;
    answer += String.fromCharCode(...part);
  }
  return /^\s*y(?:es)?\s*$/i.test(answer);
}

const FILE_MODE = 0o644;

/** Writes a file beside the old one, and replaces it in one step. The old one stays if anything fails. */
function replaceFile(named: string, text: string): void {
  const file = existsSync(named) ? realpathSync(named) : named;
  const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? FILE_MODE;
  const partial = join(dirname(file), `.${basename(file)}.${process.pid}`);
  try {
    const descriptor = openSync(partial, "wx", mode & 0o777);
    try {
      writeSync(descriptor, text);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(partial, file);
  } catch (cause) {
    rmSync(partial, { force: true });
    throw new CommandFailure(
      `${file} cannot be written and stays as it was: ${fileErrorReason(cause)}`,
      { cause },
    );
  }
}
