import { StoreError } from "./sqlite.ts";

/** The failure of whoever names an account that the store does not have. */
export function noAccount(name: string): StoreError {
  return new StoreError(
    `there is no account ${JSON.stringify(name)}: tollgate accounts list shows them`,
  );
}

/** The failure of whoever names a key that the store does not have, by its id. */
export function noKey(publicId: string): StoreError {
  return new StoreError(
    `there is no key ${JSON.stringify(publicId)}: tollgate keys list shows them`,
  );
}
