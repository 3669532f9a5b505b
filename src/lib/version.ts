/** Put in by the build. */
declare const TOLLGATE_VERSION: string | undefined;

/** The version of this executable, such as `1.2.3`; `dev` when it runs from its sources. */
export function version(): string {
  return typeof TOLLGATE_VERSION === "undefined" ? "dev" : TOLLGATE_VERSION;
}
