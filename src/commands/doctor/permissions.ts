import { accessSync, constants, type Stats } from "node:fs";
import { dirname } from "node:path";
import { pathStatus } from "../../lib/systemError.ts";
import { storeFiles } from "../../store/open.ts";
import type { LoadedConfig } from "./configuration.ts";
import { failed, passed, type Verdict } from "./verdict.ts";

const ROOT = 0;
const OWNER_READ_WRITE = 0o600;
const GROUP_AND_OTHERS = 0o077;
const OTHERS = 0o007;
const OTHERS_WRITE = 0o002;
/** In a folder with this bit, such as /tmp, users cannot replace each other's files. */
const STICKY = 0o1000;

/** Checks that other users cannot read or change the gateway's files, and that the gateway can. */
export function examinePermissions({ config, plainSecrets }: LoadedConfig): Verdict {
  const { database, server } = config;
  const { tls } = server;
  const files = database.engine === "sqlite" ? storeFiles(database.path) : undefined;
  const owner = files && expectedOwner(files.database);
  const problems = [
    ...Object.values(files ?? {}).flatMap((file: string) => storeFileProblems(file, owner)),
    ...(files === undefined ? [] : folderProblems(dirname(files.database))),
    ...configProblems(config.file, plainSecrets),
    ...(tls === undefined ? [] : tlsKeyProblems(tls.keyFile)),
  ];
  if (problems.length > 0) return failed(...problems);
  if (files === undefined) return passed("other users cannot change the config");
  const isOwn = owner === undefined || owner === process.geteuid?.();
  return passed(
    "only the owner can read the database; other users cannot replace it or change the config",
    ...(isOwn
      ? []
      : [`the database belongs to uid ${owner}: run the gateway and its commands as that user`]),
  );
}

/** The user that must own the store's files: this user, or for root the owner of the database. */
function expectedOwner(database: string): number | undefined {
  const user = process.geteuid?.();
  const status = user === ROOT ? statusOf(database) : undefined;
  return typeof status === "object" ? status.uid : user;
}

function storeFileProblems(path: string, owner: number | undefined): readonly string[] {
  const status = statusOf(path);
  if (typeof status === "string") return [status];
  // The check of the database reports a path that is not a file.
  if (!status?.isFile()) return [];
  const mode = modeText(status.mode);
  const problems: string[] = [];
  if ((status.mode & GROUP_AND_OTHERS) !== 0)
    problems.push(`${path} is open to other users (mode ${mode}): chmod 600 it`);
  if (owner !== undefined && status.uid !== owner) {
    const reason = process.geteuid?.() === ROOT ? "the database to" : "this command runs as";
    problems.push(
      `${path} belongs to uid ${status.uid}, and ${reason} uid ${owner}: run tollgate as its owner only, or chown it to the user of the gateway`,
    );
  } else if ((status.mode & OWNER_READ_WRITE) !== OWNER_READ_WRITE) {
    problems.push(`${path} is not accessible to its owner (mode ${mode}): chmod 600 it`);
  }
  return problems;
}

function folderProblems(path: string): readonly string[] {
  const status = statusOf(path);
  if (typeof status === "string") return [status];
  if (!status?.isDirectory()) {
    return [`the folder ${path} does not exist: create it, closed to other users`];
  }
  const problems: string[] = [];
  if (!isAllowed(path, constants.W_OK | constants.X_OK))
    problems.push(
      `${path} is not writable: run as its owner, mount it writable, or use another file as the path of [database]`,
    );
  if ((status.mode & OTHERS_WRITE) !== 0 && (status.mode & STICKY) === 0)
    problems.push(
      `in ${path} every user can replace the database (mode ${modeText(status.mode)}): chmod o-w it`,
    );
  return problems;
}

function configProblems(
  path: string,
  plainSecrets: readonly string[] | undefined,
): readonly string[] {
  const status = statusOf(path);
  if (typeof status !== "object") return status === undefined ? [] : [status];
  const mode = modeText(status.mode);
  if ((status.mode & GROUP_AND_OTHERS) !== 0) {
    if (plainSecrets === undefined) {
      return [
        `${path} is open to other users (mode ${mode}) and may contain secrets: chmod 600 it, then correct it`,
      ];
    }
    if (plainSecrets.length > 0) {
      return [
        `${path} is open to other users (mode ${mode}), and contains ${plainSecrets.join(", ")}: chmod 600 it, or use \${NAME} or a file (api_key_file or another key that ends with _file)`,
      ];
    }
  }
  return (status.mode & OTHERS_WRITE) === 0
    ? []
    : [`${path} is writable by every user (mode ${mode}): chmod o-w it`];
}

/** The group may read it: that is a common way to give a key to the user of a service. */
function tlsKeyProblems(path: string): readonly string[] {
  const status = statusOf(path);
  if (typeof status !== "object") return status === undefined ? [] : [status];
  return (status.mode & OTHERS) === 0
    ? []
    : [
        `${path}, the TLS key, is open to every user (mode ${modeText(status.mode)}): chmod o-rwx it`,
      ];
}

/** Undefined: the path does not exist. A string: the problem that prevents reading its status. */
function statusOf(path: string): Stats | string | undefined {
  const status = pathStatus(path);
  if (typeof status !== "string") return status;
  return `${path} cannot be read (${status}): run as the user of the gateway`;
}

function isAllowed(path: string, access: number): boolean {
  try {
    accessSync(path, access);
    return true;
  } catch {
    return false;
  }
}

function modeText(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}
