import { closeSync, openSync, readSync } from "node:fs";
import { basename } from "node:path";
import { isatty } from "node:tty";
import { isLoopback } from "../../config/address.ts";
import { errorCode, fileErrorReason } from "../../lib/systemError.ts";
import { ConnectionError, download } from "../../providers/upstream.ts";
import { CommandFailure } from "../cli/print.ts";

/** A list has 2 MB. */
const LIST_BYTES_MAX = 64 * 1024 ** 2;
const PART_BYTES = 1024 ** 2;
export const STDIN = 0;
const EMPTY_PIPE_WAIT_MS = 10;
const DOWNLOAD_TIMEOUT_MS = 60_000;

/** A price list that was read. */
export interface SourceText {
  /** For messages: without a user, a password and a query, which may be secret. */
  readonly name: string;
  readonly text: string;
}

/** Reads a file, an address, or `-`, the standard input. Throws CommandFailure. */
export async function readSource(given: string | undefined): Promise<SourceText> {
  if (given === undefined && isatty(STDIN))
    throw new CommandFailure("give the file of the price list, or - to type it", { status: 2 });
  const url = given === undefined ? undefined : addressOf(given);
  const file = given === "-" ? undefined : given;
  const name = url?.shown ?? file ?? "the standard input";
  const bytes = url === undefined ? readBytes(file, name) : await downloaded(url.url, name);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { name: url === undefined && file !== undefined ? basename(file) : name, text };
  } catch (cause) {
    throw new CommandFailure(`${name} is not UTF-8: it is not a price list`, { cause });
  }
}

function addressOf(given: string): { readonly url: URL; readonly shown: string } | undefined {
  if (!/^https?:/i.test(given)) return undefined;
  if (!URL.canParse(given))
    throw new CommandFailure("the address of the price list is no valid URL", { status: 2 });
  const url = new URL(given);
  const shown = `${url.origin}${url.pathname}`;
  if (url.protocol === "http:" && !isLoopback(url.hostname))
    throw new CommandFailure(
      `${shown} is not encrypted: anybody on the way could change the prices; use https://`,
      { status: 2 },
    );
  if (url.username !== "" || url.password !== "")
    throw new CommandFailure(
      `${shown} has a user or a password: fetch the list with another program, and give the file`,
      { status: 2 },
    );
  return { url, shown };
}

async function downloaded(url: URL, name: string): Promise<Uint8Array> {
  const limits = { bytesMax: LIST_BYTES_MAX, timeoutMs: DOWNLOAD_TIMEOUT_MS };
  try {
    const { status, body } = await download(url, limits);
    if (status === 200 && body !== undefined) return body;
    if (status === 200) throw tooLarge(name);
    const advice =
      status >= 300 && status < 400 ? "; redirects are not followed: use the target address" : "";
    throw new CommandFailure(`${name} answers with the status ${status}${advice}`);
  } catch (cause) {
    if (!(cause instanceof ConnectionError)) throw cause;
    throw new CommandFailure(
      `${name} cannot be read (${cause.code}): check the address and the network, or fetch it with another program, and give the file`,
      { cause },
    );
  }
}

function tooLarge(name: string): CommandFailure {
  return new CommandFailure(`${name} is larger than 64 MB: it is not a price list`);
}

/** Reads to the end, also from a pipe. */
function readBytes(file: string | undefined, name: string): Uint8Array {
  const parts: Uint8Array[] = [];
  let length = 0;
  try {
    const descriptor = file === undefined ? STDIN : openSync(file, "r");
    for (let part = readPart(descriptor); part.length > 0; part = readPart(descriptor)) {
      parts.push(part);
      length += part.length;
      if (length > LIST_BYTES_MAX) break;
    }
    if (file !== undefined) closeSync(descriptor);
  } catch (cause) {
    throw new CommandFailure(`${name} cannot be read: ${fileErrorReason(cause)}`, { cause });
  }
  if (length > LIST_BYTES_MAX) throw tooLarge(name);
  return Buffer.concat(parts);
}

/** Empty at the end. Waits if the standard input does not block and has nothing yet. */
export function readPart(descriptor: number, bytes = PART_BYTES): Uint8Array {
  const part = new Uint8Array(bytes);
  for (;;) {
    try {
      return part.subarray(0, readSync(descriptor, part));
    } catch (error) {
      if (errorCode(error) !== "EAGAIN") throw error;
      Bun.sleepSync(EMPTY_PIPE_WAIT_MS);
    }
  }
}
