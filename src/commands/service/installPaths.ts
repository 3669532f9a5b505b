import { realpathSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import type { Config } from "../../config/schema.ts";

/** A path that the service needs, what stands for it in messages, and where it may well lie. */
interface Place {
  readonly path: string;
  readonly what: string;
  readonly advice: string;
}

/** What the unit's settings hide from the service. */
const hiddenFolders: Readonly<Record<string, string>> = {
  "/home": "ProtectHome",
  "/root": "ProtectHome",
  "/run/user": "ProtectHome",
  "/tmp": "PrivateTmp",
  "/var/tmp": "PrivateTmp",
};

/** Folders that belong to all: one of them must become neither the account's nor writable as a whole. */
const sharedFolders: ReadonlySet<string> = new Set(
  "/ /bin /boot /dev /etc /home /lib /media /mnt /opt /root /run /sbin /srv /sys /tmp /usr /usr/bin /usr/lib /usr/local /usr/local/bin /usr/sbin /usr/share /var /var/lib /var/log /var/run".split(
    " ",
  ),
);

/** Cleared at each boot; what lies in it is made by systemd when the service starts. */
const runtimeFolder = "/run";

/** Where the gateway writes: folders that exist before it starts, and those of sockets below /run, relative to it. */
export function writtenFolders(config: Config): {
  readonly writable: readonly string[];
  readonly runtime: readonly string[];
} {
  const folders = socketPaths(config).map(dirname);
  const isRuntime = (folder: string) => isWithin(truePath(folder), runtimeFolder);
  const kept = folders.filter((folder) => !isRuntime(folder));
  return {
    writable: [...new Set([dirname(config.database.path), ...kept])],
    runtime: [
      ...new Set(
        folders.filter(isRuntime).map((folder) => relative(runtimeFolder, truePath(folder))),
      ),
    ],
  };
}

/** Why a service of this unit could not work, one line each with what to do; none: it can. */
export function obstacles(
  executable: string,
  config: Config,
  files: readonly string[],
): readonly string[] {
  const database = {
    path: config.database.path,
    what: "the database",
    advice: 'set database.path to "/var/lib/tollgate/tollgate.db"',
  };
  const sockets = socketPaths(config).map((path) => ({
    path,
    what: "the socket",
    advice: 'listen on "unix:/run/tollgate/tollgate.sock"',
  }));
  return [
    ...[...readPlaces(executable, config, files), database, ...sockets].flatMap(hiddenFault),
    ...[database, ...sockets].flatMap(sharedFault),
    ...bootFault(database),
    ...linkFault(database),
    ...sockets.flatMap(nameFault),
  ];
}

function readPlaces(executable: string, config: Config, files: readonly string[]) {
  const what = "a file of the config";
  return [
    { path: executable, what: "the program", advice: "copy it to /usr/local/bin and run that" },
    { path: config.file, what: "the config", advice: "move it to /etc/tollgate/config.toml" },
    ...files.map((path) => ({ path, what, advice: "move it to /etc/tollgate" })),
  ];
}

function socketPaths({ server, metrics }: Config): readonly string[] {
  return [server.listen, metrics?.listen].flatMap((listen) =>
    listen?.kind === "unix" ? [listen.path] : [],
  );
}

/** A link is followed by the service too, so both of its ends have to be in sight. */
function hiddenFault({ path, what, advice }: Place): readonly string[] {
  const target = truePath(path);
  for (const seen of [path, target]) {
    const hidden = Object.entries(hiddenFolders).find(([folder]) => isWithin(seen, folder));
    if (hidden === undefined) continue;
    const [folder, setting] = hidden;
    const shown = seen === path ? path : `${path}, which is ${target}`;
    return [
      `${shown}: ${what} is in ${folder}, which ${setting} hides from the service: ${advice}`,
    ];
  }
  return [];
}

function sharedFault({ path, what, advice }: Place): readonly string[] {
  const folder = dirname(path);
  if (!sharedFolders.has(folder) && !sharedFolders.has(truePath(folder))) return [];
  return [`${path}: ${what} needs its own folder, and ${folder} is shared: ${advice}`];
}

function bootFault({ path, what, advice }: Place): readonly string[] {
  if (!isWithin(truePath(path), runtimeFolder)) return [];
  return [`${path}: ${what} is in /run, which is emptied at each boot: ${advice}`];
}

/** The unit opens the folder of the path alone, and SQLite writes beside the file that a link leads to. */
function linkFault({ path, what }: Place): readonly string[] {
  const target = truePath(path);
  if (target === join(truePath(dirname(path)), basename(path))) return [];
  return [
    `${path}: ${what} is a link, and the service may not write to its target: set database.path to ${JSON.stringify(target)}`,
  ];
}

/** Some characters have a meaning of their own where systemd is told which folder to make. */
function nameFault({ path, advice }: Place): readonly string[] {
  const folder = truePath(dirname(path));
  if (!isWithin(folder, runtimeFolder) || /^[\w./-]*$/.test(folder)) return [];
  return [
    `${path}: a folder below /run must have a name of letters, digits, dots, hyphens and underscores: ${advice}`,
  ];
}

/** The path with its links followed, as far as it exists. */
function truePath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(truePath(parent), basename(path));
  }
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
