import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nextSteps } from "../../../src/commands/service/service.ts";
import { pathProblems, writtenFolders } from "../../../src/commands/service/installPaths.ts";
import type { Config } from "../../../src/config/schema.ts";
import { configOf, minimal } from "../../config/loadText.ts";

const program = "/usr/local/bin/tollgate";

/** A valid config at the recommended path, with these settings. */
function configWith(settings: string, file = "/etc/tollgate/config.toml"): Config {
  return { ...configOf(`${settings}\n${minimal}`), file };
}

const database = '[database]\npath = "/var/lib/tollgate/tollgate.db"';
const valid = configWith(database);

describe("a service is refused", () => {
  test.each<[string, string, Config, readonly string[], readonly string[]]>([
    [
      "if its program is hidden",
      "/home/ann/tollgate",
      valid,
      [],
      ["/home", "ProtectHome", "/usr/local/bin"],
    ],
    ["if its program is in /root", "/root/bin/tollgate", valid, [], ["/root", "ProtectHome"]],
    [
      "if its config is hidden",
      program,
      { ...valid, file: "/tmp/config.toml" },
      [],
      ["/tmp", "PrivateTmp", "/etc/tollgate/config.toml"],
    ],
    [
      "if a key file is hidden",
      program,
      valid,
      ["/root/openai.key"],
      ["a file of the config", "/etc/tollgate"],
    ],
    [
      "if its database is hidden",
      program,
      configWith('[database]\npath = "/var/tmp/a.db"'),
      [],
      ["/var/tmp/a.db", "database.path"],
    ],
    [
      "if its database is in a system folder",
      program,
      configWith('[database]\npath = "/var/lib/a.db"'),
      [],
      ["its own folder", "/var/lib is shared"],
    ],
    [
      "if its database is in /",
      program,
      configWith('[database]\npath = "/a.db"'),
      [],
      ["its own folder", "/ is shared"],
    ],
    [
      "if its database is in a folder that a boot empties",
      program,
      configWith('[database]\npath = "/run/tollgate/a.db"'),
      [],
      ["emptied at each boot"],
    ],
    [
      "if its socket is in /run itself",
      program,
      configWith(`[server]\nlisten = "unix:/run/t.sock"\n${database}`),
      [],
      ["unix:/run/tollgate/tollgate.sock"],
    ],
    [
      "if its metrics socket is in a user's folder",
      program,
      configWith(`${database}\n[metrics]\nlisten = "unix:/run/user/0/m"`),
      [],
      ["/run/user", "ProtectHome"],
    ],
  ])("%s", (_, executable, config, files, words) => {
    const found = pathProblems(executable, config, files);
    expect(found).toHaveLength(1);
    for (const word of words) expect(found[0]).toContain(word);
  });

  test("with all problems at once", () => {
    const config = configWith('[database]\npath = "/tmp/a.db"', "/home/a/config.toml");
    // A file directly in /tmp has two problems.
    expect(pathProblems("/root/tollgate", config, ["/tmp/key"])).toHaveLength(5);
  });
});

test.each([
  [program, valid],
  ["/opt/tollgate/tollgate", configWith('[database]\npath = "/srv/tollgate/a.db"', "/srv/c.toml")],
  ["/homes/tollgate", configWith('[database]\npath = "/tmpfs/tollgate/a.db"')],
  [program, configWith(`[server]\nlisten = "unix:/run/tollgate/t.sock"\n${database}`)],
])("a service with visible paths has no problem: %s", (executable, config) => {
  expect(pathProblems(executable, config, ["/etc/tollgate/key"])).toEqual([]);
});

describe("a link", () => {
  let folder: string;
  let outside: string;
  beforeAll(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), "tollgate-places-")));
    outside = join(folder, "link");
    symlinkSync("/run", outside);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test("with a hidden target is refused", () => {
    // The kernel's own link to the root folder is a link outside of the hidden folders.
    expect(pathProblems("/proc/self/root/home/ann/tollgate", valid, [])).toEqual([
      expect.stringContaining("/tollgate, which is /home/ann/tollgate: the program is in /home"),
    ]);
  });

  test("is resolved before its folder is checked", () => {
    const config = configWith(`[database]\npath = "${outside}/tollgate/a.db"`);
    expect(pathProblems(program, config, [])).toContainEqual(
      expect.stringContaining("in /run, which is emptied at each boot"),
    );
  });

  test("to the database is refused, because the service may not write to its target", () => {
    writeFileSync(join(folder, "a.db"), "");
    const toFile = join(folder, "linked.db");
    symlinkSync(join(folder, "a.db"), toFile);
    expect(pathProblems(program, configWith(`[database]\npath = "${toFile}"`), [])).toContain(
      `${toFile}: the database is a link, and the service may not write to its target: set database.path to "${folder}/a.db"`,
    );
    expect(
      pathProblems(program, configWith(`[database]\npath = "${folder}/a.db"`), []).join(),
    ).not.toContain("is a link");
  });
});

describe("the service may write to", () => {
  test("the folder of its database", () => {
    expect(writtenFolders(valid)).toEqual({ writable: ["/var/lib/tollgate"], runtime: [] });
  });

  test("the folders of its sockets, and systemd creates those below /run at each start", () => {
    const config = configWith(
      `[server]\nlisten = "unix:/run/tollgate/a/t.sock"\n${database}\n[metrics]\nlisten = "unix:/srv/metrics/m.sock"`,
    );
    expect(writtenFolders(config)).toEqual({
      writable: ["/var/lib/tollgate", "/srv/metrics"],
      runtime: ["tollgate/a"],
    });
  });
});

describe("the next steps", () => {
  const installation = {
    file: "/etc/systemd/system/tollgate.service",
    user: "gate",
    executable: program,
    config: valid,
    writable: ["/nowhere/it's here"],
    variables: ["ONE_KEY", "TWO_KEY"],
    files: ["/etc/tollgate/key"],
  };

  test("are shell commands and comments", () => {
    expect(nextSteps(installation)).toEqual([
      "id -u gate >/dev/null 2>&1 || useradd --system --user-group --shell /usr/sbin/nologin gate",
      "install -d -m 0750 -o gate '/nowhere/it'\\''s here'",
      "chown -h gate: /etc/tollgate/config.toml",
      "# gate must be able to read: /etc/tollgate/key",
      "mkdir -p /etc/tollgate && (umask 077; touch /etc/tollgate/environment)",
      "# the config uses variables: add a line for each to /etc/tollgate/environment: ONE_KEY='...' TWO_KEY='...'",
      "# then check that the providers answer (a small request to each route); run `doctor` in the same way:",
      "(set -a; . /etc/tollgate/environment; runuser -u gate -- /usr/local/bin/tollgate check --live --config /etc/tollgate/config.toml)",
      "systemctl daemon-reload",
      "systemctl enable --now tollgate",
      "# run the other commands as the same user, which owns the database, such as:",
      "runuser -u gate -- /usr/local/bin/tollgate keys create --account NAME --config /etc/tollgate/config.toml",
    ]);
  });

  test("do not read the environment file if the config uses no variable", () => {
    expect(nextSteps({ ...installation, variables: [] })).toContain(
      "runuser -u gate -- /usr/local/bin/tollgate check --live --config /etc/tollgate/config.toml",
    );
  });

  test("name a unit outside of systemd's folder by its path", () => {
    const file = "/srv/units/gate.service";
    expect(nextSteps({ ...installation, file })).toContain(`systemctl enable --now ${file}`);
  });

  test("warn of a database in the folder of the config or the program", () => {
    const steps = nextSteps({ ...installation, writable: ["/etc/tollgate", "/usr/local/bin"] });
    expect(steps.filter((step) => step.includes("is in the folder of the database"))).toEqual([
      expect.stringContaining("gate may change /etc/tollgate/config.toml"),
      expect.stringContaining("gate may change /usr/local/bin/tollgate"),
    ]);
    expect(nextSteps(installation).join()).not.toContain("is in the folder of the database");
  });

  test("change no database files where a server has the database", () => {
    const config = configWith('[database]\nurl = "postgres://gate@db/toll"');
    const { writable } = writtenFolders(config);
    expect(writable).toEqual([]);
    expect(nextSteps({ ...installation, config, writable })).toContain(
      "chown -h gate: /etc/tollgate/config.toml",
    );
  });

  test("change the owner of the existing database files and of nothing else in the folder", () => {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-steps-"));
    try {
      for (const name of ["a.db", "a.db.lock", "else"]) writeFileSync(join(folder, name), "");
      const config = configWith(`[database]\npath = "${folder}/a.db"`);
      expect(nextSteps({ ...installation, config, writable: [folder] })).toContain(
        `chown -h gate: ${folder} ${folder}/a.db ${folder}/a.db.lock /etc/tollgate/config.toml`,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
