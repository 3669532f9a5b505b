import type { BundledPackage } from "./bundledPackages.ts";

/** An executable of a release. */
export interface DescribedExecutable {
  /** The version that it reports. */
  readonly version: string;
  /** SHA-256 in hex digits. */
  readonly sha256: string;
  /** When its commit was made. */
  readonly madeAt: Date;
  /** SHA-256 of the Bun in it, as its package has it. */
  readonly runtime: {
    readonly packageName: string;
    readonly version: string;
    readonly sha256: string;
  };
  readonly packages: readonly BundledPackage[];
  /** The names of the packages that the project itself asks for. */
  readonly directDependencies: readonly string[];
}

/**
 * The software bill of materials of an executable, as a document of CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/): the
 * runtime and all packages whose code is in it. The same executable gives the same document, so it has no serial number.
 */
export function sbomOf(executable: DescribedExecutable): object {
  const { version, runtime, packages, directDependencies, madeAt } = executable;
  const self = `tollgate@${version}`;
  const runtimeRef = packageUrl(runtime.packageName, runtime.version);
  const refsOf = (names: readonly string[]): readonly string[] =>
    packages.filter(({ name }) => names.includes(name)).map(refOf);
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      timestamp: madeAt.toISOString(),
      lifecycles: [{ phase: "build" }],
      component: {
        type: "application",
        "bom-ref": self,
        name: "tollgate",
        version,
        licenses: [{ license: { id: "MIT" } }],
        hashes: [{ alg: "SHA-256", content: executable.sha256 }],
      },
    },
    components: [
      {
        type: "platform",
        "bom-ref": runtimeRef,
        ...groupAndName(runtime.packageName),
        version: runtime.version,
        description:
          "The JavaScript runtime. It contains JavaScriptCore, SQLite, BoringSSL and other libraries.",
        licenses: [{ license: { id: "MIT" } }],
        hashes: [{ alg: "SHA-256", content: runtime.sha256 }],
        purl: runtimeRef,
        externalReferences: [{ type: "license", url: "https://bun.com/docs/project/license" }],
      },
      ...packages.map((bundled) => ({
        type: "library",
        "bom-ref": refOf(bundled),
        ...groupAndName(bundled.name),
        version: bundled.version,
        licenses: [licenceOf(bundled)],
        purl: refOf(bundled),
      })),
    ],
    dependencies: [
      { ref: self, dependsOn: [runtimeRef, ...refsOf(directDependencies)] },
      ...packages.map((bundled) => ({
        ref: refOf(bundled),
        dependsOn: refsOf(bundled.dependencies),
      })),
    ],
    compositions: [
      { aggregate: "complete", assemblies: [self] },
      // Bun publishes no list of the versions of its libraries.
      { aggregate: "incomplete", assemblies: [runtimeRef] },
    ],
  };
}

function refOf({ name, version }: BundledPackage): string {
  return packageUrl(name, version);
}

/** https://github.com/package-url/purl-spec/blob/main/types-doc/npm-definition.md */
function packageUrl(name: string, version: string): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

function groupAndName(packageName: string): { group?: string; name: string } {
  const [group, name] = packageName.split("/");
  return name === undefined ? { name: packageName } : { ...(group && { group }), name };
}

/** An expression, such as "MIT OR Apache-2.0", has blanks. */
function licenceOf({ license }: BundledPackage): object {
  return license.includes(" ") ? { expression: license } : { license: { id: license } };
}
