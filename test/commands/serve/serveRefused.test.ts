import { afterEach, describe, expect, test } from "bun:test";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { takeInstanceLock } from "../../../src/store/open.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { withoutRoot } from "../../support/binary/otherUser.ts";
import { configText, oneModel } from "../../support/gateway/gatewayConfig.ts";

const desks: CliFolder[] = [];
afterEach(async () => {
  for (const cli of desks.splice(0)) await cli.remove();
});

async function newDesk(sections: Parameters<typeof oneModel>[1]): Promise<CliFolder> {
  const cli = await openCliFolder(configText(oneModel("http://127.0.0.1:9/v1", sections)));
  desks.push(cli);
  return cli;
}

/** The standard error of a `serve` that cannot start. */
async function refusalOf(cli: CliFolder): Promise<string> {
  const { status, stderr } = await cli.run("serve");
  expect(status).toBe(1);
  return stderr;
}

const rewriteUnit =
  "write the unit of the service again (remove it, then `tollgate service install` and `systemctl daemon-reload`)";
const noFolder = `the folder of the socket does not exist: create it, or ${rewriteUnit}`;

/** What the executable prints as an error in this folder when it runs without the rights of root. */
async function refusalWithoutRoot(cli: CliFolder, ...args: readonly string[]): Promise<string> {
  const child = Bun.spawn([...(await withoutRoot(cli)), ...args, "--config", cli.config], {
    cwd: cli.folder,
    stdio: ["ignore", "ignore", "pipe"],
  });
  return (await child.stderr.text()).trimEnd();
}

describe("serve that cannot listen prints the advice for", () => {
  test.each([
    [
      "198.51.100.7:0",
      "this machine does not have this address: use one of its own, such as 127.0.0.1",
    ],
    // Empty labels, so that no DNS server is asked.
    ["a..b:0", "this name has no address: use an address of this machine, such as 127.0.0.1"],
    ["unix:/nowhere/x.sock", noFolder],
    ["unix:/etc/passwd/x.sock", noFolder],
  ])("%s", async (listen, reason) => {
    const cli = await newDesk({ server: { listen } });
    const shown = listen.replace("unix:", "");
    expect(await refusalOf(cli)).toBe(`error: cannot listen on ${shown}: ${reason}`);
  });

  test.each([
    ["unix:closed/x.sock", "use a folder that this user owns"],
    ["127.0.0.1:1", "use a port from 1024 up"],
  ])("%s, which needs a permission", async (listen, advice) => {
    const cli = await newDesk({ server: { listen } });
    await mkdir(join(cli.folder, "closed"), { mode: 0o500 });
    const shown = listen.replace("unix:", `${cli.folder}/`);
    expect(await refusalWithoutRoot(cli, "serve")).toBe(
      `error: cannot listen on ${shown}: permission denied: ${advice}, or ${rewriteUnit}`,
    );
  });

  test.each(["a folder", "a file"])("the path of %s", async (kind) => {
    const cli = await newDesk({ server: { listen: "unix:taken" } });
    const path = join(cli.folder, "taken");
    await (kind === "a folder" ? mkdir(path) : writeFile(path, "of value"));
    expect(await refusalOf(cli)).toBe(
      `error: cannot listen on ${path}: the existing file is not a socket: use another path`,
    );
  });

  test("a port in use", async () => {
    const taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    try {
      const listen = `127.0.0.1:${taken.port}`;
      const stderr = await refusalOf(await newDesk({ server: { listen } }));
      expect(stderr).toBe(
        `error: cannot listen on ${listen}: the address is in use: stop the other program, or use another address`,
      );
    } finally {
      taken.stop(true);
    }
  });
});

describe("serve that cannot use its database prints the advice for", () => {
  test("a missing folder", async () => {
    const cli = await newDesk({ database: { path: "data/tollgate.db" } });
    expect(await refusalOf(cli)).toBe(
      `error: there is no folder ${join(cli.folder, "data")} for the database: make it, or name another file as the path of [database]`,
    );
  });

  test("a folder that is a file", async () => {
    const cli = await newDesk({ database: { path: "data/tollgate.db" } });
    await writeFile(join(cli.folder, "data"), "");
    expect(await refusalOf(cli)).toStartWith("error: there is no folder ");
  });

  test("a database path that is a folder", async () => {
    const cli = await newDesk({});
    await mkdir(cli.database);
    expect(await refusalOf(cli)).toBe(
      `error: database is no file: ${cli.database}; name another file as the path of [database]`,
    );
  });

  test("a database that another gateway serves", async () => {
    const cli = await newDesk({});
    const lock = takeInstanceLock(cli.database);
    try {
      expect(await refusalOf(cli)).toBe(
        `error: another gateway is running on this database: ${cli.database}; stop it first, or give this one a database of its own`,
      );
    } finally {
      lock?.release();
    }
  });

  test("a database that it may not write", async () => {
    const cli = await newDesk({});
    await writeFile(cli.database, "", { mode: 0o400 });
    expect(await refusalWithoutRoot(cli, "accounts", "create", "alice")).toBe(
      `error: database is not writable: ${cli.database} (permission denied); run as its owner, mount its disk writable, ${rewriteUnit}, or name another file as the path of [database]`,
    );
  });
});
