import { existsSync } from "node:fs";
import { basename, dirname } from "node:path";
import { ENVIRONMENT_FILE } from "../../config/load.ts";
import type { Config } from "../../config/schema.ts";
import { STORE_SUFFIXES } from "../../store/store.ts";
import { visible } from "../print.ts";
import { shellWord } from "../shellWord.ts";

/** What was installed, and for whom. */
export interface Installed {
  /** The unit's own. */
  readonly file: string;
  readonly user: string;
  readonly executable: string;
  readonly config: Config;
  /** The folders that the service may write to. */
  readonly writable: readonly string[];
  readonly variables: readonly string[];
  readonly files: readonly string[];
}

/** Where a unit is known by its name alone. */
const UNIT_FOLDER = "/etc/systemd/system";
const APART = 'database.path = "/var/lib/tollgate/tollgate.db" parts them';

/** What is left to do after the unit was written: lines for a shell, run as root, and comments. */
export function nextSteps(installed: Installed): readonly string[] {
  const { file, user, executable, config } = installed;
  const unit = dirname(file) === UNIT_FOLDER ? basename(file, ".service") : file;
  const run = (command: string) =>
    `runuser -u ${user} -- ${shellWord(executable)} ${command} --config ${shellWord(config.file)}`;
  const check = run("check --live");
  return [
    `id -u ${user} >/dev/null 2>&1 || useradd --system --user-group --shell /usr/sbin/nologin ${user}`,
    ...ownershipSteps(installed),
    ...environmentSteps(installed.variables),
    "# then whether the providers answer, each route with as few tokens as it takes; `doctor` is asked the same way:",
    installed.variables.length === 0 ? check : `(set -a; . ${ENVIRONMENT_FILE}; ${check})`,
    "systemctl daemon-reload",
    `systemctl enable --now ${shellWord(unit)}`,
    "# the other commands are run as the same account, which owns the database, such as:",
    run("keys create --account NAME"),
  ].map(visible);
}

/** A folder that is there already may hold more than is the gateway's: what else is in it stays whose it is. */
function ownershipSteps({
  user,
  config,
  executable,
  writable,
  files,
}: Installed): readonly string[] {
  const made = writable.filter((folder) => !existsSync(folder));
  const owned = [
    ...writable.filter((folder) => existsSync(folder)),
    // Made by whoever used the database first.
    ...STORE_SUFFIXES.map((suffix) => config.database.path + suffix).filter((one) =>
      existsSync(one),
    ),
    config.file,
  ];
  return [
    ...made.map((folder) => `install -d -m 0750 -o ${user} ${shellWord(folder)}`),
    // A link that the account put into its own folder must not lead root to other files.
    `chown -h ${user}: ${owned.map(shellWord).join(" ")}`,
    ...(files.length === 0
      ? []
      : [`# ${user} must be able to read: ${files.map(shellWord).join(" ")}`]),
    ...[config.file, executable]
      .filter((file) => writable.includes(dirname(file)))
      .map((file) => `# ${user} may change ${file}, which lies beside the database: ${APART}`),
  ];
}

function environmentSteps(variables: readonly string[]): readonly string[] {
  if (variables.length === 0) return [];
  // In such quotes systemd and a shell read the same.
  const lines = variables.map((name) => `${name}='...'`).join(" ");
  return [
    `mkdir -p ${dirname(ENVIRONMENT_FILE)} && (umask 077; touch ${ENVIRONMENT_FILE})`,
    `# the config names variables: put a line for each into ${ENVIRONMENT_FILE}: ${lines}`,
  ];
}
