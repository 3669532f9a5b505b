/**
 * Makes the files of a release in dist/release: for each target an archive with the executable and an SBOM, and SHA256SUMS.
 *
 *   bun run release [TARGET ...]
 *
 * Each executable is built twice, and the two must be the same bytes. Without a target it makes all that are released. See
 * docs/contribute/releasing.md.
 */
import { mkdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { sha256, sha256Sums, tarOf, writeXz } from "./archives.ts";
import { buildVersion, commitTime } from "./buildVersion.ts";
import { bundledPackages } from "./bundledPackages.ts";
import { compile, projectRoot, type Compiled } from "./compile.ts";
import { licencesText } from "./licences.ts";
import { signAdHoc, signatureProblem } from "./macSignature.ts";
import { differenceOf } from "./reproducibility.ts";
import { installRuntimes, runtimeOf, type Runtime } from "./runtimes.ts";
import { sbomOf } from "./sbom.ts";
import { namedTargets, type ReleaseTarget } from "./targets.ts";

const folder = join(projectRoot, "dist", "release");
/** Each compression needs a core and 700 MB of memory. */
const COMPRESSIONS_AT_ONCE = 2;

interface Release {
  readonly version: string;
  readonly commitTime: Date;
}

interface MadeTarget {
  readonly target: ReleaseTarget;
  /** Undefined when both builds are the same bytes. */
  readonly difference: string | undefined;
  readonly executableBytes: number;
  readonly executableSha256: string;
  readonly runtimeBytes: number;
  readonly archive: string;
  readonly sbom: string;
}

/** Makes the targets and SHA256SUMS. Resolves when all files are complete. Throws what makes a target impossible. */
async function makeRelease(targets: readonly ReleaseTarget[]): Promise<readonly MadeTarget[]> {
  const [version, time] = await Promise.all([buildVersion(projectRoot), commitTime(projectRoot)]);
  console.log(`tollgate ${version}, ${targets.length} targets`);
  await installRuntimes();
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const made: MadeTarget[] = [];
  const waiting = [...targets];
  const makeNext = async (): Promise<void> => {
    for (let target = waiting.shift(); target; target = waiting.shift())
      made.push(await makeTarget({ version, commitTime: time }, target));
  };
  await Promise.all(Array.from({ length: COMPRESSIONS_AT_ONCE }, makeNext));
  const files = made.flatMap(({ archive, sbom }) => [archive, sbom]);
  await Bun.write(join(folder, "SHA256SUMS"), await sha256Sums(files));
  return targets.flatMap((target) => made.filter((one) => one.target === target));
}

async function makeTarget(release: Release, target: ReleaseTarget): Promise<MadeTarget> {
  const { version, commitTime } = release;
  const runtime = await runtimeOf(target);
  const first = await buildExecutable(version, target, runtime);
  const second = await buildExecutable(version, target, runtime);
  const packages = await bundledPackages(first.inputs);
  const runtimeBytes = await Bun.file(runtime.executable).bytes();
  const executableSha256 = sha256(first.bytes);
  const name = `tollgate-${packageJson.version}-${target.name}`;
  const bom = sbomOf({
    version,
    sha256: executableSha256,
    madeAt: commitTime,
    runtime: { ...runtime, sha256: sha256(runtimeBytes) },
    packages,
    directDependencies: Object.keys(packageJson.dependencies),
  });
  const sbom = join(folder, `${name}.cdx.json`);
  await Bun.write(sbom, `${JSON.stringify(bom, undefined, 2)}\n`);
  const tar = await tarOf(
    name,
    [
      { name: first.name, body: first.bytes, isExecutable: true },
      { name: "LICENSE", body: await textOf("LICENSE") },
      { name: "THIRD-PARTY-LICENSES.txt", body: licencesText(packages, runtime.version) },
      { name: "config.example.toml", body: await textOf("config.example.toml") },
    ],
    commitTime,
  );
  const archive = join(folder, `${name}.tar.xz`);
  await writeXz(archive, tar, target.isFilteredForX86);
  console.log(`${basename(archive)} is ready`);
  return {
    target,
    difference: differenceOf(first.bytes, second.bytes),
    executableBytes: first.bytes.length,
    executableSha256,
    runtimeBytes: runtimeBytes.length,
    archive,
    sbom,
  };
}

interface BuiltExecutable extends Pick<Compiled, "inputs"> {
  readonly name: string;
  readonly bytes: Uint8Array;
}

let builds = 0;

/** Builds in a folder of its own each time. */
async function buildExecutable(
  version: string,
  { bunTarget, isMacOs }: ReleaseTarget,
  { executable }: Runtime,
): Promise<BuiltExecutable> {
  builds += 1;
  const workshop = join(projectRoot, "dist", `release-${process.pid}-${builds}`);
  try {
    const { path, inputs } = await compile(workshop, version, { target: bunTarget, executable });
    const bytes = await Bun.file(path).bytes();
    return { name: basename(path), inputs, bytes: isMacOs ? signed(bytes) : bytes };
  } finally {
    await rm(workshop, { recursive: true, force: true });
  }
}

function signed(executable: Uint8Array): Uint8Array {
  if (signatureProblem(executable) === undefined) return executable;
  const result = signAdHoc(executable);
  const problem = signatureProblem(result);
  if (problem !== undefined) throw new Error(`the signature is not valid: ${problem}`);
  return result;
}

async function textOf(name: string): Promise<string> {
  return await Bun.file(join(projectRoot, name)).text();
}

function tell(made: readonly MadeTarget[]): void {
  const megabytes = (bytes: number): string => (bytes / 1_000_000).toFixed(1);
  console.table(
    Object.fromEntries(
      made.map(({ target, executableBytes, runtimeBytes, archive, difference }) => [
        target.name,
        {
          "executable, MB": megabytes(executableBytes),
          "of it Bun, MB": megabytes(runtimeBytes),
          "archive, MB": megabytes(Bun.file(archive).size),
          "two builds": difference === undefined ? "same bytes" : "DIFFERENT",
        },
      ]),
    ),
  );
  for (const { target, executableSha256 } of made)
    console.log(`${executableSha256}  executable of ${target.name}`);
  for (const { target, difference } of made)
    if (difference !== undefined)
      console.log(`two builds of ${target.name} differ:\n${difference}`);
}

if (import.meta.main) {
  const made = await makeRelease(namedTargets(process.argv.slice(2)));
  tell(made);
  process.exit(made.every(({ difference }) => difference === undefined) ? 0 : 1);
}
