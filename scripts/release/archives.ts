import { basename } from "node:path";
import { packTar, type TarEntry } from "modern-tar";

export interface ArchivedFile {
  readonly name: string;
  readonly body: Uint8Array | string;
  readonly isExecutable?: boolean;
}

/** The files in one folder as a tar archive. The same arguments give the same bytes: no owner, the order as given. */
export async function tarOf(
  folder: string,
  files: readonly ArchivedFile[],
  modifiedAt: Date,
): Promise<Uint8Array> {
  const owner = { uid: 0, gid: 0, uname: "", gname: "", mtime: modifiedAt };
  const entries = files.map(({ name, body, isExecutable }): TarEntry => {
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const mode = isExecutable ? 0o755 : 0o644;
    const path = `${folder}/${name}`;
    return {
      header: { ...owner, name: path, size: bytes.length, mode, type: "file" },
      body: bytes,
    };
  });
  return await packTar(entries);
}

/** More memory than this is not asked of the machine that unpacks. It is xz's default for `-9`. */
const DICTIONARY = "64MiB";

/**
 * Writes the bytes, compressed by the xz of this machine, which needs 700 MB of memory. The same version of xz gives the same
 * bytes. Throws without xz.
 */
export async function writeXz(
  path: string,
  bytes: Uint8Array,
  isFilteredForX86: boolean,
): Promise<void> {
  if (Bun.which("xz") === null)
    throw new Error("a release needs xz: install it (Debian: apt-get install xz-utils)");
  const filters = [...(isFilteredForX86 ? ["--x86"] : []), `--lzma2=preset=9e,dict=${DICTIONARY}`];
  // One thread: several would cut the data into blocks, and the result depend on their number.
  const child = Bun.spawn(["xz", "--compress", "--stdout", "--threads=1", ...filters], {
    stdin: bytes,
    stdout: Bun.file(path),
    stderr: "pipe",
  });
  const errors = await child.stderr.text();
  if ((await child.exited) !== 0) throw new Error(`xz failed to write ${path}: ${errors}`);
}

/** The lines that `sha256sum --check` reads, for files in one folder. */
export async function sha256Sums(paths: readonly string[]): Promise<string> {
  const lines = paths
    .toSorted()
    .map(async (path) => `${sha256(await Bun.file(path).bytes())}  ${basename(path)}\n`);
  return (await Promise.all(lines)).join("");
}

/** In hex digits. */
export function sha256(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}
