/** A system that an executable can be made for. */
export interface ReleaseTarget {
  /** A part of the names of its files. */
  readonly name: string;
  /** Its name in Bun's compiler. */
  readonly bunTarget: Bun.Build.CompileTarget;
  /** The package with Bun for it, in `runtimes/package.json`. */
  readonly runtimePackage: string;
  readonly isMacOs?: boolean;
  /** Whether xz shortens the jumps in its machine code. Older versions of xz can undo that for x86 only. */
  readonly isX86: boolean;
  /** False: it is made only by its name, because it is not fit for use. docs/releasing.md says why. */
  readonly isReleased: boolean;
}

const releaseTargets: readonly ReleaseTarget[] = [
  {
    name: "linux-x64",
    bunTarget: "bun-linux-x64",
    runtimePackage: "@oven/bun-linux-x64",
    isX86: true,
    isReleased: true,
  },
  {
    name: "linux-x64-musl",
    bunTarget: "bun-linux-x64-musl",
    runtimePackage: "@oven/bun-linux-x64-musl",
    isX86: true,
    isReleased: true,
  },
  {
    name: "linux-arm64",
    bunTarget: "bun-linux-arm64",
    runtimePackage: "@oven/bun-linux-aarch64",
    isX86: false,
    isReleased: true,
  },
  {
    name: "linux-arm64-musl",
    bunTarget: "bun-linux-arm64-musl",
    runtimePackage: "@oven/bun-linux-aarch64-musl",
    isX86: false,
    isReleased: true,
  },
  {
    name: "macos-x64",
    bunTarget: "bun-darwin-x64",
    runtimePackage: "@oven/bun-darwin-x64",
    isMacOs: true,
    isX86: true,
    isReleased: true,
  },
  {
    name: "macos-arm64",
    bunTarget: "bun-darwin-arm64",
    runtimePackage: "@oven/bun-darwin-aarch64",
    isMacOs: true,
    isX86: false,
    isReleased: true,
  },
  {
    name: "windows-x64",
    bunTarget: "bun-windows-x64",
    runtimePackage: "@oven/bun-windows-x64",
    isX86: true,
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
