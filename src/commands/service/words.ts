import { hasUnprintable } from "../../lib/unprintable.ts";
import { CommandFailure } from "../failure.ts";

/** What to do where the unit of a service still holds to the config from which it was made. */
export const UNIT_ANEW =
  "write a service's unit anew (remove it, then `tollgate service install` and `systemctl daemon-reload`)";

/**
 * How paths are written in a systemd unit. Quotes and backslashes follow
 * https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html, the doubled `%` and `$`
 * https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Command%20lines
 */

/** A path as one word of a list of paths. Throws CommandFailure for one that no unit can hold. */
export function pathWord(path: string): string {
  if (hasUnprintable(path)) {
    throw new CommandFailure(
      `${path}: a unit cannot name a path with control characters: rename it`,
    );
  }
  const escaped = path.replaceAll("%", "%%").replace(/["\\]/g, "\\$&");
  return /^[\w./%@:+,=-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}

/** The same as an argument of a command, where `$` begins a variable. */
export function argumentWord(path: string): string {
  return pathWord(path).replaceAll("$", "$$$$");
}

/** The same as the program of a command, where `$` is only itself and systemd refuses some others. */
export function programWord(path: string): string {
  if (!/["'\\]/.test(path)) return pathWord(path);
  throw new CommandFailure(
    `${path}: systemd starts no program with a quote or a backslash in its path: copy it to /usr/local/bin and run that one`,
  );
}
