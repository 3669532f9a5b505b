import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmod, chown, copyFile, rename, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { openDesk, type Desk } from "../../support/binary/cli.ts";
import { examine, type Scene } from "../../support/binary/doctor.ts";
import { configText, oneModel } from "../../support/gateway/gatewayConfig.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";

const secret = "sk-upstream-0123456789abcdef";

const provider = startProvider();
afterAll(() => provider.stop());

const baseUrl = `http://127.0.0.1:${provider.port}/v1`;
const config = configText(oneModel(baseUrl));

let desk: Desk;
beforeEach(async () => {
  desk = await openDesk(config);
});
afterEach(() => desk.remove());

async function newDesk(text: string): Promise<void> {
  await desk.remove();
  desk = await openDesk(text);
}

function certificate(name: string): string {
  return resolve(import.meta.dir, "../../support/certificates", name);
}

const scenes: readonly Omit<Scene, "failed">[] = [
  {
    what: "a database that others can read",
    async spoil() {
      desk.makeDatabase();
      await chmod(desk.database, 0o644);
    },
    message: () => `${desk.database} is open to other users (mode 0644): chmod 600 it`,
  },
  {
    what: "a database that others can read, behind a link",
    async spoil() {
      desk.makeDatabase();
      await rename(desk.database, join(desk.folder, "books.db"));
      await symlink("books.db", desk.database);
      await chmod(desk.database, 0o604);
    },
    message: () => `${join(desk.folder, "books.db")} is open to other users (mode 0604)`,
  },
  {
    what: "a database that its own owner may not write to",
    async spoil() {
      desk.makeDatabase();
      await chmod(desk.database, 0o400);
    },
    message: () => `${desk.database} is closed to its own owner (mode 0400): chmod 600 it`,
  },
  {
    what: "a folder in which anybody can replace the database",
    spoil: () => chmod(desk.folder, 0o777),
    message: () => `in ${desk.folder} every user can replace the database (mode 0777): chmod o-w`,
  },
  {
    what: "a config that anybody can change",
    spoil: () => chmod(desk.config, 0o666),
    message: () => `${desk.config} can be changed by every user (mode 0666): chmod o-w it`,
  },
  {
    what: "a config that others can read, with a key in it",
    spoil: () =>
      newDesk(`${config}\n[[providers]]\nid = "b"\nbase_url = "${baseUrl}"\napi_key = "${secret}"`),
    message: () =>
      `${desk.config} is open to other users (mode 0644), and it holds providers[1].api_key`,
  },
  {
    what: "a key of the certificate that every user can read",
    async spoil() {
      const tls = { tls_cert: certificate("localhost.pem"), tls_key: "server.key" };
      await newDesk(configText(oneModel(baseUrl, { server: tls })));
      await copyFile(certificate("server.key"), join(desk.folder, "server.key"));
      await chmod(join(desk.folder, "server.key"), 0o644);
    },
    message: () => `${join(desk.folder, "server.key")}, the TLS key, is open to every user`,
  },
];

describe("doctor finds", () => {
  test.each(scenes)("$what", async ({ spoil, message }) => {
    await spoil();
    const { failed, messages, output } = await examine(desk);
    expect(failed).toEqual(["permissions"]);
    expect(messages["permissions"]).toStartWith(message());
    expect(output).not.toContain(secret);
  });

  test("nothing amiss in a folder and a config that others may read, and does not call them closed", async () => {
    desk.makeDatabase();
    await chmod(desk.folder, 0o755);
    await chmod(desk.config, 0o644);
    const { failed, messages } = await examine(desk);
    expect(failed).toEqual([]);
    expect(messages["permissions"]).toBe(
      "only its owner can read the database; only owners and groups can replace it or change the config",
    );
  });

  describe.skipIf(process.getuid?.() !== 0)("as root", () => {
    test("nothing amiss in a database of the gateway's own user, and whose it is", async () => {
      desk.makeDatabase();
      await chown(desk.database, 12_345, 12_345);
      const { failed, messages } = await examine(desk);
      expect(failed).toEqual([]);
      expect(messages["permissions"]).toContain("; the database belongs to uid 12345: run the");
    });

    test("a lock beside the database that is another's", async () => {
      desk.makeDatabase();
      await Bun.write(`${desk.database}.lock`, "");
      await chmod(`${desk.database}.lock`, 0o600);
      await chown(desk.database, 12_345, 12_345);
      const { failed, messages } = await examine(desk);
      expect(failed).toEqual(["permissions"]);
      expect(messages["permissions"]).toStartWith(
        `${desk.database}.lock belongs to uid 0, and the database to uid 12345: run tollgate as`,
      );
    });
  });
});
