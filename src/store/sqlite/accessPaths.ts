import type { AccessPaths } from "../connection.ts";

/** SQLite has no statistics of these tables. So it prefers an index for equal values to an index for a range. */
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
  // By an index, in the order of the sum or the sort, each row would be at another place of the file.
  wholeTable: (name) => `${name} NOT INDEXED`,
};
