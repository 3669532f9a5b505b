import { expect, test } from "bun:test";
import { forgetPostgresEnvironment } from "../../src/config/load.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import { freshDatabase } from "../support/servers/postgres.ts";
import { withEnvironment } from "./loadText.ts";

test("a password in the environment stays, other variables of PostgreSQL go", () => {
  withEnvironment({ PGPASSWORD: "canary", PGHOST: "elsewhere" }, () => {
    forgetPostgresEnvironment();
    const { PGPASSWORD, PGHOST } = process.env;
    expect({ PGPASSWORD, PGHOST }).toEqual({ PGPASSWORD: "canary", PGHOST: undefined });
  });
});

describePostgres("variables of PostgreSQL's own programs", () => {
  // A process of its own: the variables are of the whole process.
  async function connected(url: string, start: string): Promise<unknown> {
    const source = `
      import { SQL } from "bun";
      import { forgetPostgresEnvironment } from "./src/config/load.ts";
      ${start}
      const sql = new SQL(${JSON.stringify(url)}, { max: 1 });
      const [row] = await sql\`SELECT current_database() AS name,
        current_setting('default_transaction_read_only') AS read_only\`;
      process.stdout.write(JSON.stringify(row));
      await sql.close();`;
    const child = Bun.spawn([process.execPath, "-e", source], {
      cwd: `${import.meta.dir}/../..`,
      env: {
        ...process.env,
        PGDATABASE: "postgres",
        PGPORT: "1",
        PGOPTIONS: "-c default_transaction_read_only=on",
      },
      stdio: ["ignore", "pipe", "inherit"],
    });
    return JSON.parse(await new Response(child.stdout).text());
  }

  test("do not change what the config says", async () => {
    await using database = await freshDatabase();
    const name = new URL(database.url).pathname.slice(1);
    // Without the call they do: the runtime reads them.
    expect(await connected(database.url, "")).toEqual({ name: "postgres", read_only: "on" });
    expect(await connected(database.url, "forgetPostgresEnvironment();")).toEqual({
      name,
      read_only: "off",
    });
  });
});
