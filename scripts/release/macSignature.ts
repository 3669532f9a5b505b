/**
 * The code signature of an executable for macOS. A signature that does not match the bytes makes macOS kill the process, and
 * on arm64 an executable without one is not started. Bun signs for arm64. For x64 it leaves the signature of Bun itself,
 * which does not match any more.
 *
 * The forms are those of `mach-o/loader.h` and of `kern/cs_blobs.h` in https://github.com/apple-oss-distributions/xnu.
 */

const MACH_64 = 0xfeedfacf;
const LC_SEGMENT_64 = 0x19;
const LC_CODE_SIGNATURE = 0x1d;
const SUPER_BLOB = 0xfade0cc0;
const CODE_DIRECTORY = 0xfade0c02;
/** The version with the fields of the executable segment. */
const DIRECTORY_VERSION = 0x20400;
const DIRECTORY_BYTES = 88;
/** Ad hoc, and made by a linker: there is no certificate, and other tools may replace it. */
const AD_HOC = 0x2;
const LINKER_SIGNED = 0x20000;
const MAIN_EXECUTABLE = 1n;
const SHA256 = 2;
const HASH_BYTES = 32;
const PAGE_BITS = 12;
const PAGE_BYTES = 1 << PAGE_BITS;
/** A superblob with one entry. */
const SUPER_BLOB_BYTES = 20;
/** What Bun's own signatures have. */
const IDENTIFIER = "a.out";
/** The larger of both processors: a page of arm64. */
const MEMORY_PAGE_BYTES = 0x4000n;

/** Says what is wrong with the signature. Undefined when each page has its hash there. Throws when the bytes are no executable for macOS. */
export function signatureProblem(executable: Uint8Array): string | undefined {
  const { signature } = readLoadCommands(executable);
  if (signature === undefined) return "there is no signature";
  if (signature.from + signature.bytes !== executable.length)
    return "the signature is not at the end of the file";
  const view = viewOf(executable.subarray(signature.from));
  if (view.getUint32(0) !== SUPER_BLOB) return "the signature does not begin as one";
  const directory = view.getUint32(16);
  if (view.getUint32(directory) !== CODE_DIRECTORY) return "the first part is no code directory";
  const hashes = directory + view.getUint32(directory + 16);
  const pages = view.getUint32(directory + 28);
  const signedBytes = view.getUint32(directory + 32);
  const pageBytes = 1 << view.getUint8(directory + 39);
  if (signedBytes !== signature.from)
    return `only ${signedBytes} of ${signature.from} bytes are signed`;
  if (pages !== Math.ceil(signedBytes / pageBytes)) return `it has ${pages} hashes of pages`;
  for (let page = 0; page < pages; page += 1) {
    const at = signature.from + hashes + page * HASH_BYTES;
    const bytes = executable.subarray(
      page * pageBytes,
      Math.min((page + 1) * pageBytes, signedBytes),
    );
    if (!sha256(bytes).equals(executable.subarray(at, at + HASH_BYTES)))
      return `page ${page} of ${pages} has another hash`;
  }
  return undefined;
}

/** The executable with an ad-hoc signature instead of its own. Throws when it has none to replace. */
export function signAdHoc(executable: Uint8Array): Uint8Array {
  const { signature, text, linkEdit } = readLoadCommands(executable);
  if (signature === undefined || text === undefined || linkEdit === undefined)
    throw new Error("the executable has no place for a signature");
  const pages = Math.ceil(signature.from / PAGE_BYTES);
  const identifier = new TextEncoder().encode(`${IDENTIFIER}\0`);
  const hashes = DIRECTORY_BYTES + identifier.length;
  const directoryBytes = hashes + pages * HASH_BYTES;
  const signatureBytes = SUPER_BLOB_BYTES + directoryBytes;
  const signed = new Uint8Array(signature.from + signatureBytes);
  signed.set(executable.subarray(0, signature.from));

  // The load commands are a part of what is signed.
  const head = viewOf(signed);
  head.setUint32(signature.command + 12, signatureBytes, true);
  const linkEditBytes = BigInt(signed.length) - linkEdit.from;
  head.setBigUint64(linkEdit.command + 32, roundedUp(linkEditBytes, MEMORY_PAGE_BYTES), true);
  head.setBigUint64(linkEdit.command + 48, linkEditBytes, true);

  const view = viewOf(signed.subarray(signature.from));
  [SUPER_BLOB, signatureBytes, 1, 0, SUPER_BLOB_BYTES].forEach((value, at) =>
    view.setUint32(at * 4, value),
  );
  const flags = AD_HOC | LINKER_SIGNED;
  const directory = [CODE_DIRECTORY, directoryBytes, DIRECTORY_VERSION, flags];
  const slots = [hashes, DIRECTORY_BYTES, 0, pages, signature.from];
  [...directory, ...slots].forEach((value, at) => view.setUint32(SUPER_BLOB_BYTES + at * 4, value));
  [HASH_BYTES, SHA256, 0, PAGE_BITS].forEach((value, at) =>
    view.setUint8(SUPER_BLOB_BYTES + 36 + at, value),
  );
  [text.from, text.bytes, MAIN_EXECUTABLE].forEach((value, at) =>
    view.setBigUint64(SUPER_BLOB_BYTES + 64 + at * 8, value),
  );
  const body = signature.from + SUPER_BLOB_BYTES;
  signed.set(identifier, body + DIRECTORY_BYTES);
  for (let page = 0; page < pages; page += 1) {
    const end = Math.min((page + 1) * PAGE_BYTES, signature.from);
    signed.set(sha256(signed.subarray(page * PAGE_BYTES, end)), body + hashes + page * HASH_BYTES);
  }
  return signed;
}

interface LoadCommands {
  signature?: { readonly command: number; readonly from: number; readonly bytes: number };
  text?: Segment;
  linkEdit?: Segment;
}

interface Segment {
  /** The offset of its load command. */
  readonly command: number;
  /** Where it is in the file. */
  readonly from: bigint;
  readonly bytes: bigint;
}

function readLoadCommands(executable: Uint8Array): LoadCommands {
  const view = viewOf(executable);
  if (view.getUint32(0, true) !== MACH_64) throw new Error("this is no executable for macOS");
  const found: LoadCommands = {};
  let command = 32;
  for (let left = view.getUint32(16, true); left > 0; left -= 1) {
    const kind = view.getUint32(command, true);
    if (kind === LC_SEGMENT_64) {
      const name = Buffer.from(executable.subarray(command + 8, command + 24)).toString("latin1");
      const from = view.getBigUint64(command + 40, true);
      const segment = { command, from, bytes: view.getBigUint64(command + 48, true) };
      if (name.startsWith("__TEXT\0")) found.text = segment;
      if (name.startsWith("__LINKEDIT\0")) found.linkEdit = segment;
    }
    if (kind === LC_CODE_SIGNATURE) {
      const [from, bytes] = [view.getUint32(command + 8, true), view.getUint32(command + 12, true)];
      found.signature = { command, from, bytes };
    }
    command += view.getUint32(command + 4, true);
  }
  return found;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function sha256(bytes: Uint8Array): Buffer {
  return new Bun.CryptoHasher("sha256").update(bytes).digest();
}

function roundedUp(value: bigint, unit: bigint): bigint {
  return ((value + unit - 1n) / unit) * unit;
}
