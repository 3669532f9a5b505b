import { accessSync, constants, type Stats } from "node:fs";
import { dirname } from "node:path";
import { pathStatus } from "../../lib/systemError.ts";
import { storeFiles } from "../../store/store.ts";
import type { KnownConfig } from "./configuration.ts";
import { failed, passed, type Verdict } from "./verdict.ts";

const ROOT = 0;
const OWNER = 0o600;
const GROUP_AND_OTHERS = 0o077;
const OTHERS = 0o007;
const OTHERS_WRITE = 0o002;
/** In a folder with it, such as /tmp, nobody can replace another user's files. */
const STICKY = 0o1000;

/** Whether others can read or change what is the gateway's alone, and whether the gateway itself can. */
export function examinePermissions({ config, plainSecrets }: KnownConfig): Verdict {
  const files = storeFiles(config.database.path);
  const { tls } = config.server;
  const owner = ownerOf(files.database);
  const problems = [
    ...Object.values(files).flatMap((file: string) => problemsOfStoreFile(file, owner)),
    ...problemsOfFolder(dirname(files.database)),
    ...problemsOfConfig(config.file, plainSecrets),
    ...(tls === undefined ? [] : problemsOfTlsKey(tls.keyFile)),
  ];
  if (problems.length > 0) return failed(...problems);
  const own = owner === undefined || owner === process.geteuid?.();
  return passed(
    "only the owner can read the database; other users cannot replace it or change the config",
    ...(own
      ? []
      : [`the database belongs to uid ${owner}: run the gateway and its commands as that user`]),
  );
}

/** Whose the store has to be: this user's, and for root, who may look at anybody's, whose the database is. */
function ownerOf(database: string): number | undefined {
  const user = process.geteuid?.();
  const status = user === ROOT ? look(database) : undefined;
  return typeof status === "object" ? status.uid : user;
}

function problemsOfStoreFile(path: string, owner: number | undefined): readonly string[] {
  const status = look(path);
  if (typeof status === "string") return [status];
  // What is no file, such as a folder, the check of the database refuses; its mode had better stay.
  if (!status?.isFile()) return [];
  return [
    ...((status.mode & GROUP_AND_OTHERS) === 0
      ? []
      : [`${path} is open to other users (mode ${modeText(status.mode)}): chmod 600 it`]),
    ...(owner === undefined || status.uid === owner
      ? problemsOfUse(path, status)
      : [
          `${path} belongs to uid ${status.uid}, and ${process.geteuid?.() === ROOT ? "the database to" : "this command runs as"} uid ${owner}: run tollgate as its owner only, or chown it to the user of the gateway`,
        ]),
  ];
}

/** Of a file that belongs to the right user. The mode is asked too, for root may do what it forbids the owner. */
function problemsOfUse(path: string, { mode }: Stats): readonly string[] {
  if ((mode & OWNER) !== OWNER)
    return [`${path} is not accessible to its owner (mode ${modeText(mode)}): chmod 600 it`];
  return isAllowed(path, constants.R_OK | constants.W_OK)
    ? []
    : [
        `${path} is not writable although its mode allows it: mount the disk writable, or remove the immutable flag (chattr -i)`,
      ];
}

function problemsOfFolder(path: string): readonly string[] {
  const status = look(path);
  if (typeof status === "string") return [status];
  if (!status?.isDirectory()) {
    return [`the folder ${path} does not exist: create it, closed to other users`];
  }
  const isOpen = (status.mode & OTHERS_WRITE) !== 0 && (status.mode & STICKY) === 0;
  return [
    ...(isAllowed(path, constants.W_OK | constants.X_OK)
      ? []
      : [
          `${path} is not writable: run as its owner, mount it writable, or use another file as the path of [database]`,
        ]),
    ...(isOpen
      ? [
          `in ${path} every user can replace the database (mode ${modeText(status.mode)}): chmod o-w it`,
        ]
      : []),
  ];
}

function problemsOfConfig(
  path: string,
  plainSecrets: readonly string[] | undefined,
): readonly string[] {
  const status = look(path);
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
        `${path} is open to other users (mode ${mode}), and contains ${plainSecrets.join(", ")}: chmod 600 it, or use \${NAME} or api_key_file`,
      ];
    }
  }
  return (status.mode & OTHERS_WRITE) === 0
    ? []
    : [`${path} is writable by every user (mode ${mode}): chmod o-w it`];
}

/** Its group may read it: so a key is commonly given to the user of a service. */
function problemsOfTlsKey(path: string): readonly string[] {
  const status = look(path);
  if (typeof status !== "object") return status === undefined ? [] : [status];
  return (status.mode & OTHERS) === 0
    ? []
    : [
        `${path}, the TLS key, is open to every user (mode ${modeText(status.mode)}): chmod o-rwx it`,
      ];
}

/** Undefined: it is not there. A text: why it cannot be looked at. */
function look(path: string): Stats | string | undefined {
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
