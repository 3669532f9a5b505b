import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { BuildMetafile } from "bun";
import { pageNames } from "../../src/http/pages/bundle.ts";
import { projectRoot } from "./compile.ts";

/** A package of npm whose code is in the executable. */
export interface BundledPackage {
  readonly name: string;
  readonly version: string;
  /** As its package.json has it: an SPDX identifier or expression. */
  readonly license: string;
  /** The names of the packages that it needs. Not all of them need be in the executable. */
  readonly dependencies: readonly string[];
  /** The text of its licence, if the package contains it. */
  readonly licenseText: string | undefined;
}

/**
 * The packages that these source files belong to, and those in the pages, by name and version. `inputs` are paths from the
 * project's folder. Throws for a package without a licence.
 */
export async function bundledPackages(
  inputs: readonly string[],
): Promise<readonly BundledPackage[]> {
  const all = [...inputs, ...(await pageInputs())];
  const folders = new Set(
    all.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []),
  );
  const packages = await Promise.all([...folders].map(readPackage));
  return packages.sort((a, b) => (`${a.name} ${a.version}` < `${b.name} ${b.version}` ? -1 : 1));
}

/** The source files of both pages, which the executable embeds as bundles. */
async function pageInputs(): Promise<readonly string[]> {
  const { metafile } = await Bun.build({
    entrypoints: pageNames.map((page) => join(projectRoot, "src/web", page, "index.html")),
    target: "browser",
    minify: true,
    metafile: true,
  });
  return Object.keys((metafile as BuildMetafile).inputs);
}

async function readPackage(path: string): Promise<BundledPackage> {
  const folder = resolve(projectRoot, path);
  const { name, version, license, dependencies, peerDependencies } = (await Bun.file(
    join(folder, "package.json"),
  ).json()) as {
    readonly name: string;
    readonly version: string;
    readonly license?: unknown;
    readonly dependencies?: Readonly<Record<string, string>>;
    readonly peerDependencies?: Readonly<Record<string, string>>;
  };
  if (typeof license !== "string")
    throw new Error(`${name} ${version} names no licence in its package.json: look for it there`);
  const [file] = (await readdir(folder))
    .filter((file) => /^licen[cs]e(\.\w+)?$/i.test(file))
    .sort();
  return {
    name,
    version,
    license,
    dependencies: Object.keys({ ...dependencies, ...peerDependencies }),
    licenseText: file && (await Bun.file(join(folder, file)).text()),
  };
}
