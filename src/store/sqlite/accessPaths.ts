import type { AccessPaths } from "../connection.ts";

/** SQLite keeps no statistics here, so it takes an index of equal values for the better one than an index of a range. */
export const sqlitePaths: AccessPaths = {
  requestsAt: ({ from, to }, condition) =>
    `requests INDEXED BY requests_at WHERE at >= ${from} AND at < ${to} AND ${condition}`,
  requestsById: ({ ofAccount, ofStatus }) => ({
    conditions: [
      ...(ofStatus ? ["status = $status AND status <> 'done'"] : []),
      ...(ofAccount ? ["account_id = $accountId"] : []),
    ],
    id: "id",
    at: "at",
  }),
  // The index has the order of the sum or of the sort, but then each row is elsewhere in the file.
  wholeTable: (name) => `${name} NOT INDEXED`,
};
