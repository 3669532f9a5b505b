import { copyDatabase, openServerStore } from "../../../src/store/open.ts";
import { freshDatabase } from "../servers/postgres.ts";

/** A copy of a SQLite file on a PostgreSQL server. `await using` removes it. */
export interface ServerCopy extends AsyncDisposable {
  readonly url: string;
  readonly address: { readonly url: string; readonly shownUrl: string };
  readonly store: Awaited<ReturnType<typeof openServerStore>>;
}

/** No gateway may run on the file. */
export async function copyToServer(path: string): Promise<ServerCopy> {
  const database = await freshDatabase();
  const address = { url: database.url, shownUrl: "postgres://server/copy" };
  await copyDatabase(path, address, () => undefined);
  const store = await openServerStore(address);
  return {
    url: database.url,
    address,
    store,
    async [Symbol.asyncDispose]() {
      await store.close();
      await database.drop();
    },
  };
}
