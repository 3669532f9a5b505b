import type { App } from "../app.ts";
import type { Caller } from "../auth/knownKeys.ts";
import { attemptForm, Receipt, receiptForm } from "../contract/account/receipt.ts";
import {
  isCursor,
  limitOf,
  RequestList,
  RequestsQuery,
  unknownCursor,
} from "../contract/account/requestList.ts";
import { requestNotFound } from "../contract/errors.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { checkParameters } from "../contract/queryParameters.ts";
import type { AttemptRecord, ReceiptRow, Store } from "../store/store.ts";
import { declaredRoute } from "./declaredRoute.ts";
import type { InFlightRequest } from "./authentication.ts";
import { queryOf, runFairly } from "./reports.ts";
import { idParameter } from "./requestPath.ts";

/** GET /v1/requests. */
export const listRequests = declaredRoute({
  endpoint: "requests",
  detail: {
    operationId: "listRequests",
    tags: ["account"],
    summary: "Lists the requests of the account, newest first",
    description:
      "A request is recorded when it ends, or when it is open for a second, and keeps its place in the list. So the pages from the first to the last have each request once, whatever arrives meanwhile. A page looks at up to 20,000 requests. It is shorter than `limit`, or empty, if it ends there, and if requests of it end or are folded while it is read. Only the last page has no `next`.",
    responses: { 200: { description: "One page of receipts." } },
  },
  query: RequestsQuery,
  // Runs after the authentication and before Elysia checks the query.
  transform: ({ request }: { request: Request }) =>
    checkParameters(RequestsQuery, queryOf(request)),
  response: { 200: RequestList, ...errorAnswers(400, 401, 429, 502) },
});

/** GET /v1/requests/{id}. */
export const getReceipt = declaredRoute({
  endpoint: "requests",
  detail: {
    operationId: "getReceipt",
    tags: ["account"],
    summary: "Shows the status and the cost of one request of the account",
    responses: { 200: { description: "The receipt." } },
  },
  ...idParameter("The `x-request-id` header of an answer."),
  response: { 200: Receipt, ...errorAnswers(400, 401, 404, 429, 502) },
});

/** How far one page looks. A step takes about a millisecond of this thread. */
const LOOKS = { stepRows: 500, examinedMax: 20_000 };

/** One page of the requests of the caller's account. It is read in steps. Rejects with ApiError. */
export async function requestsOf(
  app: App,
  inFlight: InFlightRequest,
  query: RequestsQuery,
): Promise<RequestList> {
  const { store } = app.gateway;
  const { accountId } = inFlight.caller;
  const { status, model } = query;
  const page = { limit: limitOf(query), before: await rowOf(store, accountId, query.before) };
  const filter = { account: accountId, status, model };
  const { rows, next } = await runFairly(app, inFlight, (pause) =>
    store.requests.list(filter, { ...page, ...LOOKS, pause }),
  );
  return {
    object: "list",
    data: rows.map((row) => fullReceipt(row, row.attempts)),
    next: next?.id ?? null,
  };
}

/** The row id of a cursor. Throws ApiError 400 if it names no request of the account. */
async function rowOf(
  { requests }: Store,
  accountId: number,
  cursor: string | undefined,
): Promise<number | undefined> {
  if (cursor === undefined) return undefined;
  const receipt = isCursor(cursor) ? await requests.receipt(accountId, cursor) : undefined;
  if (receipt === undefined) throw unknownCursor();
  return receipt.rowId;
}

/** One request of the caller's account. Throws ApiError 404, also for a request of another account. */
export async function receiptOf(app: App, caller: Caller, id: string): Promise<Receipt> {
  const { requests } = app.gateway.store;
  const receipt = await requests.receipt(caller.accountId, id);
  if (receipt === undefined) throw requestNotFound();
  return fullReceipt(receipt, await requests.attempts(id));
}

function fullReceipt(receipt: ReceiptRow, attempts: readonly AttemptRecord[]): Receipt {
  return { ...receiptForm(receipt), attempts: attempts.map(attemptForm) };
}
