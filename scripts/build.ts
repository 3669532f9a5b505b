/** Compiles the gateway into one executable for this system: `bun scripts/build.ts` makes dist/tollgate. */
import { rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { buildVersion } from "./release/buildVersion.ts";
import { compile, projectRoot } from "./release/compile.ts";

const executable = join(projectRoot, "dist", "tollgate");

/**
 * Builds dist/tollgate and returns its path. The executable is renamed into place when it is complete, so two
 * builds at once, or a test that starts it meanwhile, never see a partial file. Throws what Bun.build throws.
 */
async function build(): Promise<string> {
  const workshop = join(projectRoot, "dist", `build-${process.pid}`);
  try {
    const { path } = await compile(workshop, await buildVersion(projectRoot));
    await rename(path, executable);
  } finally {
    await rm(workshop, { recursive: true, force: true });
  }
  return executable;
}

if (import.meta.main) {
  const startedMs = performance.now();
  const path = await build();
  const { size } = await stat(path);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`dist/tollgate: ${(size / 1_000_000).toFixed(1)} MB, built in ${seconds} s`);
}
