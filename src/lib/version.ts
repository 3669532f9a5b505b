/** The build defines it. */
declare const TOLLGATE_VERSION: string | undefined;

/** The version of this executable with its commit, such as `1.2.3+0a1b2c3d`; `dev` when run from source. */
export function version(): string {
  return typeof TOLLGATE_VERSION === "undefined" ? "dev" : TOLLGATE_VERSION;
}
