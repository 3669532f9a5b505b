import { beforeAll, describe, expect, test } from "bun:test";
import { Ajv } from "ajv";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import packageJson from "../../package.json" with { type: "json" };
import { bundledPackages, type BundledPackage } from "../../scripts/release/bundledPackages.ts";
import { compile } from "../../scripts/release/compile.ts";
import { licencesText } from "../../scripts/release/licences.ts";
import { sbomOf } from "../../scripts/release/sbom.ts";

/** The library has the official schemas as files, and exports only its package.json. */
const libraryPath = fileURLToPath(import.meta.resolve("@cyclonedx/cyclonedx-library/package.json"));

async function officialSchema(name: string): Promise<object> {
  const file = Bun.file(join(dirname(libraryPath), "res/schema", `${name}.SNAPSHOT.schema.json`));
  return (await file.json()) as object;
}

describe("the SBOM of an executable", () => {
  let packages: readonly BundledPackage[];
  let bom: {
    readonly components: readonly { readonly name: string; readonly purl: string }[];
    readonly dependencies: readonly {
      readonly ref: string;
      readonly dependsOn: readonly string[];
    }[];
  };

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "tollgate-sbom-"));
    const { inputs } = await compile(folder, "1.2.3");
    await rm(folder, { recursive: true });
    packages = await bundledPackages(inputs);
    bom = sbomOf({
      version: "1.2.3+0a1b2c3d",
      sha256: "0".repeat(64),
      madeAt: new Date(0),
      runtime: { packageName: "@oven/bun-linux-x64", version: "1.4.5", sha256: "1".repeat(64) },
      packages,
      directDependencies: Object.keys(packageJson.dependencies),
    }) as typeof bom;
  }, 60_000);

  test("is a document of CycloneDX 1.6", async () => {
    // Formats such as e-mail addresses are not checked: the document has none.
    const ajv = new Ajv({ strict: false, validateFormats: false });
    for (const name of ["spdx", "jsf-0.82"])
      ajv.addSchema(
        await officialSchema(name),
        `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`,
      );
    const isValid = ajv.compile(await officialSchema("bom-1.6"));
    isValid(bom);
    expect(isValid.errors).toBeNull();
    // The schema says something: without its kind, it is no such document.
    expect(isValid({ ...bom, bomFormat: "other" })).toBeFalse();
    expect(isValid({ ...bom, components: [{ name: "bun" }] })).toBeFalse();
  });

  test("has the runtime and each dependency of the project", () => {
    const found = bom.components.map(({ purl }) => purl);
    const expected = Object.entries(packageJson.dependencies).map(
      ([name, version]) => `pkg:npm/${name.replace("@", "%40")}@${version}`,
    );
    for (const purl of [...expected, "pkg:npm/%40oven/bun-linux-x64@1.4.5"])
      expect(found).toContain(purl);
    // What only tests and tools use is not in the executable.
    for (const name of Object.keys(packageJson.devDependencies))
      expect(packages.map((bundled) => bundled.name)).not.toContain(name);
  });

  test("says which component needs which, and names only components that it has", () => {
    const refs = bom.components.map(({ purl }) => purl);
    const [self, ...others] = bom.dependencies;
    expect(self?.dependsOn).toHaveLength(Object.keys(packageJson.dependencies).length + 1);
    for (const { ref, dependsOn } of others)
      for (const one of [ref, ...dependsOn]) expect(refs).toContain(one);
    const needed = bom.dependencies.flatMap(({ dependsOn }) => dependsOn);
    expect(refs.filter((ref) => !needed.includes(ref))).toEqual([]);
  });

  test("goes with the text of each licence", () => {
    const text = licencesText(packages, "1.4.5");
    for (const { name, version, license } of packages)
      expect(text).toContain(`\n${name} ${version}: ${license}\n`);
    expect(text).toContain("Copyright (c) 2011 TJ Holowaychuk");
  });
});
