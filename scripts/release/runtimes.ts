import { join } from "node:path";
import type { ReleaseTarget } from "./targets.ts";

const folder = join(import.meta.dir, "runtimes");

/** Bun for the system of a target. */
export interface Runtime {
  readonly packageName: string;
  readonly version: string;
  /** The path of its executable. */
  readonly executable: string;
}

/**
 * Installs Bun for all systems, from the registry that this machine is set to. bun.lock in the folder has the hash of each
 * package, and an install of other bytes fails. Bun's own download for a foreign target would obey no such setting and
 * check no hash. Throws when the install fails.
 */
export async function installRuntimes(): Promise<void> {
  const everySystem = ["--os=*", "--cpu=*", "--libc=*"];
  const install = ["install", "--frozen-lockfile", "--ignore-scripts", ...everySystem];
  const child = Bun.spawn([process.execPath, ...install], {
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const errors = await child.stderr.text();
  if ((await child.exited) !== 0)
    throw new Error(`the runtimes could not be installed in ${folder}:\n${errors}`);
}

/** The installed runtime of a target. Throws when it is not of the version of the Bun that runs this. */
export async function runtimeOf(target: ReleaseTarget): Promise<Runtime> {
  const installed = join(folder, "node_modules", target.runtimePackage);
  const file = Bun.file(join(installed, "package.json"));
  const { name, version } = (await file.json()) as { name: string; version: string };
  // Bytecode of another version is ignored, which would make the start slow.
  if (version !== Bun.version)
    throw new Error(
      `this is Bun ${Bun.version}, and ${name} in scripts/release/runtimes is ${version}: run the release with Bun ${version}`,
    );
  const executable = target.bunTarget.includes("windows") ? "bun.exe" : "bun";
  return { packageName: name, version, executable: join(installed, "bin", executable) };
}
