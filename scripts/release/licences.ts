import type { BundledPackage } from "./bundledPackages.ts";

const line = "=".repeat(80);

/** The licences of all that is in an executable beside this project's own code, as one text. */
export function licencesText(packages: readonly BundledPackage[], bunVersion: string): string {
  const parts = packages.map(
    ({ name, version, license, licenseText }) =>
      `${line}\n${name} ${version}: ${license}\n\n${
        licenseText?.trim() ??
        `The package has no text of its licence: https://spdx.org/licenses/${license}`
      }\n`,
  );
  return `The executable consists of Tollgate, whose licence is in the file LICENSE, of Bun, and of the packages below.

Bun ${bunVersion} has the MIT licence. It contains JavaScriptCore (LGPL-2) and other libraries. Their licences, their sources, and how
to link Bun again with a changed library: https://bun.com/docs/project/license

${parts.join("\n")}`;
}
