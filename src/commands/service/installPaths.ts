import { realpathSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import type { Config } from "../../config/schema.ts";

/** A path that the service needs, with its name in messages and the advice where to put it. */
interface NeededPath {
  readonly path: string;
  readonly name: string;
  readonly advice: string;
}

/** Folders that the unit hides from the service, and the setting that hides them. */
const hiddenFolders: Readonly<Record<string, string>> = {
  "/home": "ProtectHome",
  "/root": "ProtectHome",
  "/run/user": "ProtectHome",
  "/tmp": "PrivateTmp",
  "/var/tmp": "PrivateTmp",
};

/** System folders. The user of the service must not own one of them, or be able to write to all of it. */
const sharedFolders: ReadonlySet<string> = new Set(
  "/ /bin /boot /dev /etc /home /lib /media /mnt /opt /root /run /sbin /srv /sys /tmp /usr /usr/bin /usr/lib /usr/local /usr/local/bin /usr/sbin /usr/share /var /var/lib /var/log /var/run".split(
    " ",
  ),
);

/** The folder that is emptied at each boot. systemd creates the service's folders in it when the service starts. */
const runtimeFolder = "/run";

/** The folders that the gateway writes to. `runtime`: folders of sockets below /run, relative to it. */
export function writtenFolders(config: Config): {
  readonly writable: readonly string[];
  readonly runtime: readonly string[];
} {
  const folders = socketPaths(config).map(dirname);
  const isRuntime = (folder: string) => isWithin(realPath(folder), runtimeFolder);
  const lasting = folders.filter((folder) => !isRuntime(folder));
  const runtime = folders.filter(isRuntime);
  return {
    writable: [...new Set([...databasePaths(config).map(dirname), ...lasting])],
    runtime: [...new Set(runtime.map((folder) => relative(runtimeFolder, realPath(folder))))],
  };
}

/** Why the service could not work with these paths: one line for each problem, with the advice. */
export function pathProblems(
  executable: string,
  config: Config,
  files: readonly string[],
): readonly string[] {
  const databases = databasePaths(config).map((path) => ({
    path,
    name: "the database",
    advice: 'set database.path to "/var/lib/tollgate/tollgate.db"',
  }));
  const sockets = socketPaths(config).map((path) => ({
    path,
    name: "the socket",
    advice: 'listen on "unix:/run/tollgate/tollgate.sock"',
  }));
  const name = "a file of the config";
  const readPaths = [
    { path: executable, name: "the program", advice: "copy it to /usr/local/bin and run that" },
    { path: config.file, name: "the config", advice: "move it to /etc/tollgate/config.toml" },
    ...files.map((path) => ({ path, name, advice: "move it to /etc/tollgate" })),
  ];
  return [
    ...[...readPaths, ...databases, ...sockets].flatMap(hiddenProblem),
    ...[...databases, ...sockets].flatMap(sharedProblem),
    ...databases.flatMap(bootProblem),
    ...databases.flatMap(linkProblem),
  ];
}

/** The file of the database. Empty if a server has it. */
export function databasePaths({ database }: Config): readonly string[] {
  return database.engine === "sqlite" ? [database.path] : [];
}

function socketPaths({ server, metrics }: Config): readonly string[] {
  return [server.listen, metrics?.listen].flatMap((listen) =>
    listen?.kind === "unix" ? [listen.path] : [],
  );
}

/** The service needs both a link and its target. */
function hiddenProblem({ path, name, advice }: NeededPath): readonly string[] {
  const target = realPath(path);
  for (const needed of [path, target]) {
    const hidden = Object.entries(hiddenFolders).find(([folder]) => isWithin(needed, folder));
    if (hidden === undefined) continue;
    const [folder, setting] = hidden;
    const shown = needed === path ? path : `${path}, which is ${target}`;
    return [
      `${shown}: ${name} is in ${folder}, which ${setting} hides from the service: ${advice}`,
    ];
  }
  return [];
}

function sharedProblem({ path, name, advice }: NeededPath): readonly string[] {
  const folder = dirname(path);
  if (!sharedFolders.has(folder) && !sharedFolders.has(realPath(folder))) return [];
  return [`${path}: ${name} needs its own folder, and ${folder} is shared: ${advice}`];
}

function bootProblem({ path, name, advice }: NeededPath): readonly string[] {
  if (!isWithin(realPath(path), runtimeFolder)) return [];
  return [`${path}: ${name} is in /run, which is emptied at each boot: ${advice}`];
}

/** The unit allows writes to the folder of the path only, and SQLite writes in the folder of the link's target. */
function linkProblem({ path, name }: NeededPath): readonly string[] {
  const target = realPath(path);
  if (target === join(realPath(dirname(path)), basename(path))) return [];
  return [
    `${path}: ${name} is a link, and the service may not write to its target: set database.path to ${JSON.stringify(target)}`,
  ];
}

/** The path with links resolved, as far as it exists. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realPath(parent), basename(path));
  }
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
