import { cp, mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { BuildMetafile } from "bun";
import { bundlePage, encodings, pageNames } from "../../src/http/pages/bundle.ts";
import { storeWorkers } from "../../src/store/sqlite/workers.ts";

export const projectRoot = resolve(import.meta.dir, "../..");

/** A system other than this one, and the Bun for it. */
export interface ForeignRuntime {
  readonly target: Bun.Build.CompileTarget;
  /** The path of its `bun`. */
  readonly executable: string;
}

export interface Compiled {
  /** The path of the executable. */
  readonly path: string;
  /** The source files in it, by their paths from the project's folder. */
  readonly inputs: readonly string[];
}

/**
 * Compiles the gateway into one executable in a new folder, for this system unless a runtime is given. `version` is what it
 * reports. The same sources and the same version give the same bytes in every folder. Other files stay in the folder, such as
 * a source map: the executable needs none of them. Throws what Bun.build throws.
 */
export async function compile(
  folder: string,
  version: string,
  runtime?: ForeignRuntime,
): Promise<Compiled> {
  // The name is a part of the bytes.
  const outfile = join(folder, runtime?.target.includes("windows") ? "tollgate.exe" : "tollgate");
  // An asset is embedded under the name of its last folder.
  const pages = join(folder, "web");
  const migrations = join(folder, "drizzle");
  await mkdir(folder, { recursive: true });
  await writePages(pages);
  await copyMigrations(migrations);
  process.chdir(projectRoot); // Stack traces name the sources by their paths from here.
  const { metafile } = await Bun.build({
    // No `root`: it would move the Workers' paths.
    entrypoints: [
      "src/main.ts",
      "src/gateway/largeBodies/worker.ts",
      ...storeWorkers.map((name) => `src/store/sqlite/${name}.ts`),
    ],
    compile: {
      outfile,
      ...(runtime && { target: runtime.target, executablePath: runtime.executable }),
      assets: [migrations, pages],
      // By default an executable obeys a .env and a bunfig.toml of whatever folder it is started in.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
    // Elysia loads it to check the kind of a sent file. No endpoint takes files, and it brings nine packages.
    external: ["file-type"],
    // The main thread and the Workers share the store's code. Without it each would contain a copy.
    splitting: true,
    bytecode: true,
    format: "esm", // Bytecode alone means CommonJS, which has no top-level await.
    sourcemap: "inline",
    metafile: true,
    // Elysia reads the source text of handlers to learn which fields they use, so names must survive.
    minify: { whitespace: true, syntax: true, identifiers: false },
    define: {
      TOLLGATE_VERSION: JSON.stringify(version),
      "process.env.NODE_ENV": '"production"',
    },
  });
  return { path: outfile, inputs: Object.keys((metafile as BuildMetafile).inputs) };
}

/** Bundles both pages and writes their files with the compressed forms, each page into a folder of its own. */
async function writePages(folder: string): Promise<void> {
  for (const page of pageNames) {
    const files = await bundlePage(projectRoot, page);
    const forms = files.flatMap(({ name, identity }): readonly [string, Uint8Array][] => [
      [name, identity],
      [name + encodings.br, brotli(identity)],
      [name + encodings.gzip, gzipSync(identity, { level: constants.Z_BEST_COMPRESSION })],
    ]);
    await Promise.all(forms.map(([name, bytes]) => Bun.write(join(folder, page, name), bytes)));
  }
}

function brotli(bytes: Uint8Array): Uint8Array {
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  return brotliCompressSync(bytes, { params: quality });
}

/** The snapshots are for drizzle-kit, which compares the schema with them. */
async function copyMigrations(folder: string): Promise<void> {
  await cp(join(projectRoot, "drizzle"), folder, {
    recursive: true,
    filter: (path) => !path.endsWith("_snapshot.json"),
  });
}
