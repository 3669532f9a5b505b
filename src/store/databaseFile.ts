import { readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";

/** As many as Linux follows: https://man7.org/linux/man-pages/man7/path_resolution.7.html */
const LINKS_MAX = 40;

/**
 * The database itself, to which `path` leads by links, whether it is there yet or not. SQLite puts its own files beside
 * this one, and makes it where a link leads nowhere yet. A path that cannot be followed is returned as far as it can be.
 */
export function databaseFile(path: string, linksMax = LINKS_MAX): string {
  try {
    return realpathSync(path);
  } catch {
    const folder = realFolder(dirname(path));
    const target = linksMax > 0 ? linkTarget(path) : undefined;
    if (target === undefined) return join(folder, basename(path));
    // Not made shorter: a `..` behind a link goes up from where that leads.
    return databaseFile(isAbsolute(target) ? target : `${folder}/${target}`, linksMax - 1);
  }
}

function realFolder(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
