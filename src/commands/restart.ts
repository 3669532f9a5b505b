import type { Config } from "../config/schema.ts";
import { UNIT_ANEW } from "./service/words.ts";

/** What a reload leaves as it is: listeners, the store and the log are opened at the start. */
const fixedSettings: Readonly<Record<string, (config: Config) => unknown>> = {
  "server.listen": ({ server }) => server.listen,
  "server.tls_cert": ({ server }) => server.tls === undefined,
  "server.shutdown_grace": ({ server }) => server.shutdownGraceMs,
  "database.path": ({ database }) => database.path,
  "database.durability": ({ database }) => database.durability,
  "log.level": ({ log }) => log.level,
  "log.format": ({ log }) => log.format,
  "metrics.listen": ({ metrics }) => metrics?.listen,
};

/** What the unit of a service was made from: what they allow or forbid stands in it. */
const unitSettings: ReadonlySet<string> = new Set([
  "server.listen",
  "server.shutdown_grace",
  "database.path",
  "metrics.listen",
]);

/** The settings of `next` that count only after a restart, each with what to do, one line each. */
export function neededRestarts(startedWith: Config, next: Config): readonly string[] {
  return Object.entries(fixedSettings)
    .filter(([, value]) => !Bun.deepEquals(value(startedWith), value(next)))
    .map(([key]) => {
      const more = unitSettings.has(key) ? `; ${UNIT_ANEW}, before that restart` : "";
      return `${key}: is changed, which takes effect only after a restart${more}`;
    });
}
