/** Compiles the gateway into one executable: `bun scripts/build.ts` makes dist/tollgate. */
import { mkdir, rename, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { bundlePage, encodings, pageNames } from "../src/http/pages/bundle.ts";
import { storeWorkers } from "../src/store/sqlite/workers.ts";

const projectRoot = resolve(import.meta.dir, "..");
const executable = join(projectRoot, "dist", "tollgate");

/**
 * Builds dist/tollgate and returns its path. The executable is renamed into place when it is complete, so two
 * builds at once, or a test that starts it meanwhile, never see a partial file. Throws what Bun.build throws.
 */
async function build(): Promise<string> {
  // The name inside the folder stays "tollgate": the same inputs under the same name give the same bytes.
  const workshop = join(projectRoot, "dist", `build-${process.pid}`);
  const outfile = join(workshop, "tollgate");
  await mkdir(workshop, { recursive: true });
  try {
    // Embedded under the name of its last folder.
    const pages = join(workshop, "web");
    await writePages(pages);
    await compile(outfile, pages);
    await rename(outfile, executable);
  } finally {
    // Bun writes a source map beside the executable. It is not needed: the executable contains a copy.
    await rm(workshop, { recursive: true, force: true });
  }
  return executable;
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

async function compile(outfile: string, pages: string): Promise<void> {
  const { version } = (await Bun.file(join(projectRoot, "package.json")).json()) as {
    version: string;
  };
  process.chdir(projectRoot); // Assets keep the path that they have from here.
  await Bun.build({
    // No `root`: it would move the Workers' paths.
    entrypoints: ["src/main.ts", ...storeWorkers.map((name) => `src/store/sqlite/${name}.ts`)],
    compile: {
      outfile,
      assets: ["./drizzle", pages],
      // By default an executable obeys a .env and a bunfig.toml of whatever folder it is started in.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
    bytecode: true,
    format: "esm", // Bytecode alone means CommonJS, which has no top-level await.
    sourcemap: "inline",
    // Elysia reads the source text of handlers to learn which fields they use, so names must survive.
    minify: { whitespace: true, syntax: true, identifiers: false },
    define: {
      TOLLGATE_VERSION: JSON.stringify(version),
      "process.env.NODE_ENV": '"production"',
    },
  });
}

if (import.meta.main) {
  const startedMs = performance.now();
  const path = await build();
  const { size } = await stat(path);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`dist/tollgate: ${(size / 1_000_000).toFixed(1)} MB, built in ${seconds} s`);
}
