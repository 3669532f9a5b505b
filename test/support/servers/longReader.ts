import { SQL } from "bun";

/** A transaction that has read a table and stays open, as that of `pg_dump`. */
export interface LongReader {
  readonly pid: number;
  end(): Promise<void>;
}

export async function openLongReader(
  url: string,
  table: string,
  application: string,
): Promise<LongReader> {
  const sql = new SQL(url, { max: 1, connection: { application_name: application } });
  const connection = await sql.reserve();
  await connection`BEGIN`;
  await connection`SELECT * FROM ${sql(table)}`;
  const [{ pid }] = await connection`SELECT pg_backend_pid() AS pid`;
  return {
    pid,
    async end() {
      await connection`COMMIT`;
      void connection.release();
      await sql.close();
    },
  };
}
