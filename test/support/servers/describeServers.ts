import { describe } from "bun:test";
import { pgbouncerMissing } from "./pgbouncer.ts";
import { postgresMissing } from "./postgres.ts";
import { redisMissing } from "./redis.ts";

/** Tests that need a PostgreSQL server. They are skipped, and say so, where none can be started. */
export const describePostgres = describeWith("PostgreSQL", postgresMissing);

/** The same with a Redis or Valkey server. */
export const describeRedis = describeWith("Redis", redisMissing);

/** The same with a PgBouncer in front of it. */
export const describePgbouncer = describeWith("PgBouncer", postgresMissing ?? pgbouncerMissing);

function describeWith(server: string, missing: string | undefined) {
  if (missing !== undefined)
    process.stderr.write(`NOT RUN: the tests with ${server}: ${missing}\n`);
  return describe.skipIf(missing !== undefined);
}
