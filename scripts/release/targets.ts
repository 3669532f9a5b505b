/** A system that an executable can be made for. */
export interface ReleaseTarget {
  /** A part of the names of its files. */
  readonly name: string;
  /** Its name in Bun's compiler. */
  readonly bunTarget: Bun.Build.CompileTarget;
  /** The package with Bun for it, in `runtimes/package.json`. */
  readonly runtimePackage: string;
  readonly isMacOs?: boolean;
  /**
   * Whether xz rewrites the jumps in its machine code first, which saves 3%. The xz of BusyBox, which systems with musl have,
   * cannot undo it, and before version 5.4 no xz can for arm64.
   */
  readonly isFilteredForX86: boolean;
  /** False: it is made only by its name, because it is not fit for use. docs/contribute/releasing.md says why. */
  readonly isReleased: boolean;
}

const releaseTargets: readonly ReleaseTarget[] = [
  {
    name: "linux-x64",
    bunTarget: "bun-linux-x64",
    runtimePackage: "@oven/bun-linux-x64",
    isFilteredForX86: true,
    isReleased: true,
  },
  {
    name: "linux-x64-musl",
    bunTarget: "bun-linux-x64-musl",
    runtimePackage: "@oven/bun-linux-x64-musl",
    isFilteredForX86: false,
    isReleased: true,
  },
  {
    name: "linux-arm64",
    bunTarget: "bun-linux-arm64",
    runtimePackage: "@oven/bun-linux-aarch64",
    isFilteredForX86: false,
    isReleased: true,
  },
  {
    name: "linux-arm64-musl",
    bunTarget: "bun-linux-arm64-musl",
    runtimePackage: "@oven/bun-linux-aarch64-musl",
    isFilteredForX86: false,
    isReleased: true,
  },
  {
    name: "macos-x64",
    bunTarget: "bun-darwin-x64",
    runtimePackage: "@oven/bun-darwin-x64",
    isMacOs: true,
    isFilteredForX86: true,
    isReleased: true,
  },
  {
    name: "macos-arm64",
    bunTarget: "bun-darwin-arm64",
    runtimePackage: "@oven/bun-darwin-aarch64",
    isMacOs: true,
    isFilteredForX86: false,
    isReleased: true,
  },
  {
    name: "windows-x64",
    bunTarget: "bun-windows-x64",
    runtimePackage: "@oven/bun-windows-x64",
    isFilteredForX86: true,
    isReleased: false,
  },
];

/** The targets with these names, or all that are released without a name. Throws for an unknown name. */
export function namedTargets(names: readonly string[]): readonly ReleaseTarget[] {
  if (names.length === 0) return releaseTargets.filter(({ isReleased }) => isReleased);
  return names.map((name) => {
    const target = releaseTargets.find((target) => target.name === name);
    if (target) return target;
    const known = releaseTargets.map((target) => target.name).join(", ");
    throw new Error(`"${name}" is not a target of a release: use one of ${known}`);
  });
}
