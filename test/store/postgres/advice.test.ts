import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmod, chown, copyFile, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { inspectServer, openServerStore } from "../../../src/store/open.ts";
import { openCliFolder } from "../../support/binary/cli.ts";
import { configText, oneModel } from "../../support/gateway/gatewayConfig.ts";
import type { CertificateName } from "../../support/provider/rawServer.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { startPostgres, type PostgresServer } from "../../support/servers/postgres.ts";

const certificates = resolve(import.meta.dir, "../../support/certificates");
const authority = `&sslrootcert=${join(certificates, "authority.pem")}`;

const RULES = `host all postgres,plain,poor,sleeper,ghost,lost 127.0.0.1/32 trust
hostssl all secret 127.0.0.1/32 trust
host all locked 127.0.0.1/32 scram-sha-256
`;

const ROLES = [
  "CREATE ROLE plain LOGIN",
  "CREATE ROLE secret LOGIN",
  "CREATE ROLE poor LOGIN",
  "CREATE ROLE sleeper",
  "CREATE ROLE locked LOGIN PASSWORD 'right'",
  "CREATE ROLE lost LOGIN",
  "ALTER ROLE lost SET search_path = nowhere",
  "CREATE DATABASE closed",
  "REVOKE CONNECT ON DATABASE closed FROM PUBLIC",
  "CREATE DATABASE theirs OWNER plain",
  // As PostgreSQL 15 and later have it.
  "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
];

describePostgres("a database that cannot be used", () => {
  let folder: string;
  let server: PostgresServer;
  let withoutTls: PostgresServer;
  let root: SQL;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-advice-"));
    await chmod(folder, 0o755);
    await writeFile(join(folder, "pg_hba.conf"), RULES);
    const key = join(folder, "server.key");
    await copyFile(join(certificates, "server.key"), key);
    await copyFile(join(certificates, "localhost.pem"), join(folder, "server.pem"));
    await chmod(key, 0o600);
    withoutTls = await startPostgres();
    const owner = await ownerOf(withoutTls);
    if (owner !== undefined) await chown(key, owner.uid, owner.gid);
    server = await startPostgres([
      `hba_file=${join(folder, "pg_hba.conf")}`,
      "ssl=on",
      `ssl_cert_file=${join(folder, "server.pem")}`,
      `ssl_key_file=${key}`,
    ]);
    root = new SQL(server.url(), { max: 1 });
    for (const statement of ROLES) await root.unsafe(statement);
    const theirs = urlOf("plain@/theirs");
    await (await openServerStore({ url: theirs, shownUrl: theirs })).close();
  }, 60_000);
  afterAll(async () => {
    await root.close();
    await server.close();
    await withoutTls.close();
    await rm(folder, { recursive: true });
  });

  /** `USER[:PASSWORD]@HOST/DATABASE`; without a host 127.0.0.1. */
  function urlOf(text: string): string {
    const [login, host = "", rest = ""] = text.split(/[@/]/);
    return `postgres://${login}@${host || "127.0.0.1"}:${server.port}/${rest}`;
  }

  /** What a start or a command says, and what `doctor` says. */
  async function problemsOf(url: string): Promise<readonly string[]> {
    const address = { url, shownUrl: "postgres://the-database" };
    const messageOf = (error: unknown) => (error instanceof Error ? error.message : "no error");
    const opened = openServerStore(address).then(async (store) => {
      await store.close();
      return "it works";
    }, messageOf);
    const inspected = inspectServer(address).then(
      ({ rightsProblems }) => rightsProblems.join("; ") || "it works",
      messageOf,
    );
    return await Promise.all([opened, inspected]);
  }

  test.each<[what: string, place: string, problem: string, advice: string]>([
    [
      "a wrong password",
      "locked:wrong@/postgres",
      "password authentication failed",
      "correct the user or the password of the URL, or set it: ALTER ROLE locked PASSWORD '...'",
    ],
    ["no role", "ghost@/postgres", "does not exist", "make it: CREATE ROLE ghost LOGIN PASSWORD"],
    [
      "a role that may not log in",
      "sleeper@/postgres",
      "not permitted",
      "ALTER ROLE sleeper LOGIN",
    ],
    [
      "no line of pg_hba.conf",
      "Nobody@/postgres",
      "no pg_hba.conf entry",
      'such as: host postgres "Nobody" ADDRESS/32 scram-sha-256',
    ],
    [
      "a server that demands TLS",
      "secret@/postgres",
      "no encryption",
      "if the server demands TLS, add ?sslmode=verify-full to the URL",
    ],
    ["no database", "plain@/nothing", "does not exist", "CREATE DATABASE nothing OWNER plain"],
    [
      "no right to connect",
      "plain@/closed",
      'permission denied for database "closed"',
      "GRANT CONNECT ON DATABASE closed TO plain",
    ],
  ])("because of %s is told with the advice", async (_, place, problem, advice) => {
    for (const message of await problemsOf(urlOf(place))) {
      expect(message).toStartWith("the database postgres://the-database cannot be used: ");
      expect(message).toContain(problem);
      expect(message).toContain(advice);
    }
  });

  test.each([
    ["may make no tables", "poor@/postgres", "GRANT USAGE, CREATE ON SCHEMA public TO poor"],
    [
      "has a search_path without a schema",
      "lost@/postgres",
      "CREATE SCHEMA AUTHORIZATION lost, or ALTER ROLE lost RESET search_path",
    ],
    ["does not own the tables", "poor@/theirs", "TO poor"],
  ])("for a user who %s is told with the SQL that mends it", async (_, place, advice) => {
    for (const message of await problemsOf(urlOf(place))) expect(message).toContain(advice);
  });

  test("doctor names the owner of the tables", async () => {
    const [, message] = await problemsOf(urlOf("poor@/theirs"));
    expect(message).toContain(
      "the tables belong to the user plain: an upgrade needs the owner of the tables: use that user in the URL, or, as a superuser in this database: REASSIGN OWNED BY plain TO poor",
    );
  });

  test("is a failed check of doctor, and serve says the same", async () => {
    const url = urlOf("poor@/postgres");
    const cli = await openCliFolder(
      configText(oneModel("http://127.0.0.1:9/v1", { database: { url } })),
    );
    try {
      const advice = "GRANT USAGE, CREATE ON SCHEMA public TO poor";
      const [doctor, serve] = [await cli.run("doctor"), await cli.run("serve")];
      expect(doctor.stdout).toMatch(/^database +failed +the user must be able to make tables/m);
      expect(doctor.stdout).toContain(advice);
      expect(serve).toMatchObject({ status: 1, stderr: expect.stringContaining(advice) });
    } finally {
      await cli.remove();
    }
  });

  test.each<[what: string, certificate: CertificateName, parameters: string, advice: string]>([
    [
      "of an unknown authority",
      "localhost",
      "",
      "the certificate of localhost is of an authority that is not known here: add &sslrootcert=/path/ca.pem",
    ],
    ["that signs itself", "selfSigned", authority, "add &sslrootcert=/path/ca.pem"],
    ["that has expired", "expired", authority, "renew the certificate of localhost"],
    ["for another host", "otherHost", authority, "the certificate is not for localhost"],
  ])("because of a certificate %s is told with the advice", async (_, name, parameters, advice) => {
    await copyFile(join(certificates, `${name}.pem`), join(folder, "server.pem"));
    await root`SELECT pg_reload_conf()`;
    const url = `${urlOf("postgres@localhost/postgres")}?sslmode=verify-full${parameters}`;
    // The server reads the file a moment later.
    for (let tries = 0; ; tries += 1) {
      const messages = await problemsOf(url);
      if (tries < 50 && !messages.every((message) => message.includes(advice))) continue;
      for (const message of messages) {
        expect(message).toStartWith("the database postgres://the-database cannot be used: ");
        expect(message).toContain(advice);
      }
      return;
    }
  });

  test("because its server has no TLS is told with the advice", async () => {
    for (const message of await problemsOf(`${withoutTls.url()}?sslmode=require`))
      expect(message).toContain("set ssl = on in postgresql.conf, or take sslmode out of the URL");
  });

  test("because no server answers is told with the advice", async () => {
    for (const message of await problemsOf("postgres://gate@127.0.0.1:1/toll"))
      expect(message).toContain("check that the server runs, that host and port of the URL are");
  });
});

/** The user of the server's processes. Undefined: that of this process. */
async function ownerOf(server: PostgresServer) {
  await using sql = new SQL(server.url(), { max: 1 });
  const [{ folder }] = await sql`SELECT current_setting('data_directory') AS folder`;
  const { uid, gid } = await stat(folder as string);
  return uid === process.getuid?.() ? undefined : { uid, gid };
}
