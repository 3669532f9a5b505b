import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { openTestApp } from "../../support/gateway/testApp.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import type { TestDatabase } from "../../support/servers/postgres.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { until, untilAsync } from "../../support/until.ts";

describePostgres("a gateway whose database is named in a file", () => {
  let folder: string;
  let database: TestDatabase;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-url-"));
    database = await replicaDatabase();
  });
  afterAll(async () => {
    await database.drop();
    await rm(folder, { recursive: true });
  });

  test("logs that the file cannot be used, and goes on when it can", async () => {
    const file = join(folder, "url");
    await writeFile(file, database.url);
    await using sql = new SQL(database.url, { max: 1 });
    const gateway = await openTestApp(
      oneModel("http://127.0.0.1:1/v1", { database: { url_file: file } }),
    );
    const status = async () => (await fetch(`${gateway.url}/healthz`)).status;
    try {
      const names = await sql`SELECT DISTINCT application_name AS name FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'tollgate%'`;
      expect(names[0]).toEqual({ name: `tollgate/${hostname()}` });
      await writeFile(file, "postgres://canary");
      await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()`;
      const told = () => gateway.log.find(({ event }) => event === "database_url_unusable");
      await until("the file is told", () => told() !== undefined);
      expect(told()).toMatchObject({
        level: "error",
        problem: `${file}: must name a user: postgres://USER@host/name`,
      });
      expect(JSON.stringify(gateway.log)).not.toContain("canary");
      await writeFile(file, database.url);
      await untilAsync("it serves again", async () => (await status()) === 200);
    } finally {
      await gateway.close();
    }
  });
});
