import { Database } from "bun:sqlite";
import { afterAll, beforeAll, beforeEach } from "bun:test";
import { join } from "node:path";
import { openAuditedBooks } from "../store/auditedBooks.ts";
import type { StoreFolder } from "../store/storeFolder.ts";

/** For each test around it a file of its own with the audited books, which nobody has open. */
export function copiedBooks(): { readonly path: string } {
  let original: StoreFolder;
  let count = 0;
  const path = (): string => join(original.folder, `copy-${count}.db`);
  beforeAll(async () => {
    original = await openAuditedBooks();
  });
  beforeEach(() => {
    count += 1;
    const file = new Database(original.path);
    file.run("VACUUM INTO ?", [path()]);
    file.close();
  });
  afterAll(() => original.close());
  return {
    get path() {
      return path();
    },
  };
}
