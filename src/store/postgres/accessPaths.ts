import type { AccessPaths } from "../connection.ts";

/** The index `requests_account` has its columns with a sign: see `schema/schema.ts`. */
export const postgresPaths: AccessPaths = {
  requestsAt: ({ from, to }, condition) =>
    `requests WHERE at >= ${from} AND at < ${to} AND ${condition}`,
  requestsById: ({ ofAccount, ofStatus }) => ({
    conditions: [
      ...(ofStatus ? ["status = $status AND status <> 'done'"] : []),
      ...(ofAccount ? [`${ofStatus ? "" : "+"}account_id = $accountId`] : []),
    ],
    // Without the sign the planner may walk through all rows in the order of their ids.
    id: ofAccount || ofStatus ? "+id" : "id",
    // Without the sign the planner may look for these requests from the oldest request on.
    at: "+at",
  }),
  wholeTable: (name) => name,
};
