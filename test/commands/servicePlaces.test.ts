import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nextSteps } from "../../src/commands/service/service.ts";
import { obstacles, writtenFolders } from "../../src/commands/service/installPaths.ts";
import type { Config } from "../../src/config/schema.ts";
import { configOf, minimal } from "../config/loadText.ts";

const program = "/usr/local/bin/tollgate";

/** A sound config that lies where it should, with these settings. */
function configWith(settings: string, file = "/etc/tollgate/config.toml"): Config {
  return { ...configOf(`${settings}\n${minimal}`), file };
}

const database = '[database]\npath = "/var/lib/tollgate/tollgate.db"';
const sound = configWith(database);

describe("a service is not installed", () => {
  test.each<[string, string, Config, readonly string[], readonly string[]]>([
    [
      "whose program it cannot see",
      "/home/ann/tollgate",
      sound,
      [],
      ["/home", "ProtectHome", "/usr/local/bin"],
    ],
    ["whose program is root's", "/root/bin/tollgate", sound, [], ["/root", "ProtectHome"]],
    [
      "whose config it cannot see",
      program,
      { ...sound, file: "/tmp/config.toml" },
      [],
      ["/tmp", "PrivateTmp", "/etc/tollgate/config.toml"],
    ],
    [
      "whose key it cannot see",
      program,
      sound,
      ["/root/openai.key"],
      ["a file of the config", "/etc/tollgate"],
    ],
    [
      "whose database it cannot see",
      program,
      configWith('[database]\npath = "/var/tmp/a.db"'),
      [],
      ["/var/tmp/a.db", "database.path"],
    ],
    [
      "whose database is in a folder of all",
      program,
      configWith('[database]\npath = "/var/lib/a.db"'),
      [],
      ["its own folder", "/var/lib is shared"],
    ],
    [
      "whose database is in /",
      program,
      configWith('[database]\npath = "/a.db"'),
      [],
      ["its own folder", "/ is shared"],
    ],
    [
      "whose database a boot would lose",
      program,
      configWith('[database]\npath = "/run/tollgate/a.db"'),
      [],
      ["emptied at each boot"],
    ],
    [
      "whose socket is in /run itself",
      program,
      configWith(`[server]\nlisten = "unix:/run/t.sock"\n${database}`),
      [],
      ["unix:/run/tollgate/tollgate.sock"],
    ],
    [
      "whose socket of metrics is a user's",
      program,
      configWith(`${database}\n[metrics]\nlisten = "unix:/run/user/0/m"`),
      [],
      ["/run/user", "ProtectHome"],
    ],
    [
      "whose socket has a folder with a colon",
      program,
      configWith(`[server]\nlisten = "unix:/run/a:b/t.sock"\n${database}`),
      [],
      ["letters, digits"],
    ],
  ])("%s", (_, executable, config, files, words) => {
    const found = obstacles(executable, config, files);
    expect(found).toHaveLength(1);
    for (const word of words) expect(found[0]).toContain(word);
  });

  test("with all that is wrong at once", () => {
    const config = configWith('[database]\npath = "/tmp/a.db"', "/home/a/config.toml");
    // A file in /tmp itself is wrong in two ways.
    expect(obstacles("/root/tollgate", config, ["/tmp/key"])).toHaveLength(5);
  });
});

test.each([
  [program, sound],
  ["/opt/tollgate/tollgate", configWith('[database]\npath = "/srv/tollgate/a.db"', "/srv/c.toml")],
  ["/homes/tollgate", configWith('[database]\npath = "/tmpfs/tollgate/a.db"')],
  [program, configWith(`[server]\nlisten = "unix:/run/tollgate/t.sock"\n${database}`)],
])("a service that sees all it needs is installed: %s", (executable, config) => {
  expect(obstacles(executable, config, ["/etc/tollgate/key"])).toEqual([]);
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

  test("into what is hidden hides", () => {
    // The kernel's own link to the root folder, for want of a place that is not hidden itself.
    expect(obstacles("/proc/self/root/home/ann/tollgate", sound, [])).toEqual([
      expect.stringContaining("/tollgate, which is /home/ann/tollgate: the program is in /home"),
    ]);
  });

  test("is followed to where it leads", () => {
    const config = configWith(`[database]\npath = "${outside}/tollgate/a.db"`);
    expect(obstacles(program, config, [])).toContainEqual(
      expect.stringContaining("in /run, which is emptied at each boot"),
    );
  });

  test("in the place of the database is refused: the service may not write where it leads", () => {
    writeFileSync(join(folder, "a.db"), "");
    const toFile = join(folder, "linked.db");
    symlinkSync(join(folder, "a.db"), toFile);
    expect(obstacles(program, configWith(`[database]\npath = "${toFile}"`), [])).toContain(
      `${toFile}: the database is a link, and the service may not write to its target: set database.path to "${folder}/a.db"`,
    );
    expect(
      obstacles(program, configWith(`[database]\npath = "${folder}/a.db"`), []).join(),
    ).not.toContain("is a link");
  });
});

describe("what the service may write to", () => {
  test("is the folder of its database", () => {
    expect(writtenFolders(sound)).toEqual({ writable: ["/var/lib/tollgate"], runtime: [] });
  });

  test("and of its sockets, those below /run made at each start", () => {
    const config = configWith(
      `[server]\nlisten = "unix:/run/tollgate/a/t.sock"\n${database}\n[metrics]\nlisten = "unix:/srv/metrics/m.sock"`,
    );
    expect(writtenFolders(config)).toEqual({
      writable: ["/var/lib/tollgate", "/srv/metrics"],
      runtime: ["tollgate/a"],
    });
  });
});

describe("what is left to do", () => {
  const installed = {
    file: "/etc/systemd/system/tollgate.service",
    user: "gate",
    executable: program,
    config: sound,
    writable: ["/nowhere/it's here"],
    variables: ["ONE_KEY", "TWO_KEY"],
    files: ["/etc/tollgate/key"],
  };

  test("is said as lines for a shell", () => {
    expect(nextSteps(installed)).toEqual([
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

  test("checks the routes without an environment where the config names no variable", () => {
    expect(nextSteps({ ...installed, variables: [] })).toContain(
      "runuser -u gate -- /usr/local/bin/tollgate check --live --config /etc/tollgate/config.toml",
    );
  });

  test("names a unit that lies elsewhere by its path", () => {
    const file = "/srv/units/gate.service";
    expect(nextSteps({ ...installed, file })).toContain(`systemctl enable --now ${file}`);
  });

  test("warns of a database beside the config or the program", () => {
    const steps = nextSteps({ ...installed, writable: ["/etc/tollgate", "/usr/local/bin"] });
    expect(steps.filter((step) => step.includes("is in the folder of the database"))).toEqual([
      expect.stringContaining("gate may change /etc/tollgate/config.toml"),
      expect.stringContaining("gate may change /usr/local/bin/tollgate"),
    ]);
    expect(nextSteps(installed).join()).not.toContain("lies beside");
  });

  test("gives the account what is there of the database, and nothing else in its folder", () => {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-steps-"));
    try {
      for (const name of ["a.db", "a.db.lock", "else"]) writeFileSync(join(folder, name), "");
      const config = configWith(`[database]\npath = "${folder}/a.db"`);
      expect(nextSteps({ ...installed, config, writable: [folder] })).toContain(
        `chown -h gate: ${folder} ${folder}/a.db ${folder}/a.db.lock /etc/tollgate/config.toml`,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
